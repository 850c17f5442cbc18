// Package oidc lets people in whom a provider of OpenID Connect knows: it sends a browser there
// and reads what it brings back. Who that is here, and what he may, core/access says.
package oidc
