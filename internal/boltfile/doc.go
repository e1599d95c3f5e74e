// Package boltfile checks a bbolt file page by page before bbolt opens it. bbolt has no checksums except those of the
// two heads, ends the process on some damage, and on other damage loses written data without an error.
//
// It never writes, and never repairs.
package boltfile
