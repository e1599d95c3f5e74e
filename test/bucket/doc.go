// Package bucket is an S3 store in memory, for tests: the part of S3 that backups need.
//
// It never accepts a request whose signature does not match its secret key, and never shows an object before it is
// complete.
package bucket
