// Package nearest guesses which name a mistyped one means.
//
// The package never changes what was typed: it says a name, and people decide.
package nearest
