// Package idp is an identity provider that speaks OpenID Connect over https, for tests: it
// publishes keys, and signs whatever it is asked to, well or badly.
//
// It never asks who a token is for.
package idp
