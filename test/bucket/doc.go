// Package bucket is an S3 store in memory, for tests: as much of one as backups need.
//
// It never takes a request whose signature is not of its secret key, and never shows an object
// before it is whole.
package bucket
