// Package depot stores backups away from the nodes' disks: in a directory or in an S3 bucket, sealed for a recipient or
// not, under names that contain their cluster and index.
//
// It never gives a backup its name before it was read back completely, never deletes a backup of another cluster or one
// of the newest, and never holds a key that opens a sealed one.
package depot
