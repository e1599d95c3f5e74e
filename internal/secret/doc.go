// Package secret reads files that hold secrets, and refuses those that others may read.
//
// It never keeps, writes or logs what it reads.
package secret
