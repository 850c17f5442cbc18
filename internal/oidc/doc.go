// Package oidc logs users in by a provider of OpenID Connect: it sends a browser there and
// reads the provider's answer. core/access maps that answer to a user and permissions.
package oidc
