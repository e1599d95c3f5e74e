// Package schema reads the .proto files of this repository, so that the generator and the test for stale output use the
// same list.
//
// It only reads: it never writes a file, runs a program, or reaches beyond the folders that Roots names.
package schema
