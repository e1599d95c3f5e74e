// Package authz decides what callers may do: roles, tokens, sessions, blocks, issuers, and how much a principal owns.
//
// Authority owns the rows and resolves rights (docs/security.md); judge.go has the right that each operation needs. The
// objects that operations name are in the tables of other parts: see Places.
//
// It never changes a row of another part: workers lose their sessions, and webhooks stop, through Ports.
package authz
