// Package sentences writes a table of the doc comments of the types that HTTP shows, which its description uses.
//
// It never writes a file itself, and never changes a comment, except that it removes references that readers of the
// description do not have.
package sentences
