// Package identity says whose a certificate is: a node's or a client's, by the one URI that it
// carries (SECURITY §1.2), and which authority must stand behind it. It also issues such
// certificates, for those who have no authority of their own.
//
// It never reads files, and never decides what its holder may do.
package identity
