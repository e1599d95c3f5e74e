// Package virtualnet is the environment of clusters in virtual time (testing/synctest): hosts joined by streams that
// faults cut, slow and reset, a substitute for gossip, and real nodes with their servers on them.
//
// It never opens a socket, and is never part of a shipped binary.
package virtualnet
