// Package sentences writes the doc comments of the types that HTTP shows into a table, from
// which its description takes them.
//
// It never writes a file itself, and never changes a comment but for references that its readers do not have.
package sentences
