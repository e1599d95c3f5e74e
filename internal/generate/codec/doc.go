// Package codec writes the Go code that carries the busiest messages between words of
// package rota and bytes: from the compiled schemas, the types of package rota, and a
// table of where the two differ in more than spelling.
//
// A field of a message belongs to the field of the type that is spelled like it; the
// table names the others. A field on either side that finds none on the other is an
// error, so that nobody adds a field to one of them alone.
//
// It returns the files' text and never writes one.
package codec
