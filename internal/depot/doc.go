// Package depot keeps backups where nodes' disks are not: in a directory or in a bucket of an
// S3 store, sealed for a recipient or as they are, under names that say of which cluster and
// index they are.
//
// It never shows a backup under its name before it was read back whole, never takes one away
// that is another cluster's or among the newest, and never holds what opens a sealed one.
package depot
