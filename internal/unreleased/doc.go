// Package unreleased numbers the drafts of rota before its first release, and refuses what
// another draft wrote or runs (SPEC §16.0).
//
// The package never reads what it judges, and goes with the first release.
package unreleased
