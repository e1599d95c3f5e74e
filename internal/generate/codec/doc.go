// Package codec writes the Go code that converts the busiest messages between the types of package rota (words) and
// bytes: from the compiled schemas, the types of package rota, and a table of the differences beyond spelling.
//
// A field of a message belongs to the field of the type with the same spelling; the table names the others. A field on
// either side without a counterpart is an error, so that a field cannot be added to only one of them.
//
// It returns the files' text and never writes one.
package codec
