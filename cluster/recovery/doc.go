// Package recovery creates a new cluster from the remains of an old one: from a backup (SPEC §13.5), or from the disk
// of one node after the others are lost permanently (SECURITY §5).
//
// It never touches the files of a running node, and writes only after it has checked the disk.
package recovery
