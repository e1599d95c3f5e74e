// Package idp is an identity provider that implements OpenID Connect over https, for tests: it publishes keys, and
// signs any token requested, valid or invalid.
//
// It never checks who a token is for.
package idp
