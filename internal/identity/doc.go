// Package identity returns the holder of a certificate, a node or a client, by its one URI (SECURITY §1.2), and checks
// that a required authority issued it. It also issues such certificates, for clusters without an authority of their
// own.
//
// It never reads files, and never decides what its holder may do.
package identity
