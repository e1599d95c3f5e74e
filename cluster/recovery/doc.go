// Package recovery makes a new cluster of what is left of an old one: of a backup
// (SPEC §13.5), or of the disk of one node when the others are lost for good
// (SECURITY §5).
//
// It never touches the files of a node that runs, and never writes before it has judged
// the disk.
package recovery
