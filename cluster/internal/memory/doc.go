// Package memory reads how much memory this process may use.
//
// The package never limits it.
package memory
