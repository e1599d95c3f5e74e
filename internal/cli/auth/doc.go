// Package auth has the commands of tokens, roles, blocks, issuers and attestations, and `rota console`.
//
// It never shows a token but the one that it was asked to make.
package auth
