// Package oidc verifies identity tokens: JWTs of identity providers that support OpenID Connect.
//
// A token is valid if all of these hold. A key that its issuer publishes signed it, with an algorithm that is fixed
// here. The issuer's keys are at the address in its configuration, over https and without redirects. The token is for
// the required audience, and current. The issuer maps one of its claims to a role.
//
// The package never changes the state, and never trusts a token's content before its signature is verified.
package oidc
