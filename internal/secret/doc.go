// Package secret reads files that hold secrets, refuses those that others may read, and hides the
// process that has read them.
//
// It never keeps, writes or logs what it reads.
package secret
