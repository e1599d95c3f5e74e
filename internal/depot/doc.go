// Package depot keeps backups where nodes' disks are not: in a directory, under names that say
// of which cluster and index they are.
//
// It never shows a backup under its name before it was read back whole, and never takes one
// away that is another cluster's or among the newest.
package depot
