// Package boltfile checks a bbolt file page by page before bbolt opens it. bbolt has no
// checksums but those of the two heads, ends the process over some damage, and over other
// damage loses what was written without a word.
//
// It never writes, and never repairs.
package boltfile
