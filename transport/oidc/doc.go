// Package oidc verifies identity tokens: JWTs of identity providers that speak OpenID Connect.
//
// A token counts where its signature is by a key that its issuer publishes at the address that its
// configuration names, over https and without redirects, by an algorithm that is fixed here; where
// it is for the wanted audience, and of the present; and where the issuer maps one of its claims to
// a role.
//
// It never changes the state, and never believes what a token says before its signature is proved.
package oidc
