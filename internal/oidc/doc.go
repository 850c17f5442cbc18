// Package oidc logs users in by a provider of OpenID Connect: it sends the browser to the provider and reads the provider's
// answer. core/access maps the answer to a user and permissions.
package oidc
