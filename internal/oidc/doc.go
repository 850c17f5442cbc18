// Package oidc logs users in through an OpenID Connect provider. The package sends the browser to the provider and
// reads the provider's answer. Package core/access maps the answer to a user and permissions.
package oidc
