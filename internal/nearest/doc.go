// Package nearest guesses which name a mistyped one means.
//
// The package never changes the typed name: it suggests a name, and people decide.
package nearest
