// Package virtualnet is what clusters in virtual time (testing/synctest) run on: hosts joined by streams
// that faults cut, slow and reset, what stands in for gossip, and real nodes with their servers on them.
//
// It never opens a socket, and is never part of what ships.
package virtualnet
