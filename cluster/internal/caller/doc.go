// Package caller reads the caller of an operation from its context.
//
// The package never decides what a caller may do.
package caller
