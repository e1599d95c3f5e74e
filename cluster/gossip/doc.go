// Package gossip finds the other nodes of a cluster over hashicorp/memberlist: who is
// there, at which addresses, and in which cluster. What comes over the wire is decoded as
// hostile input.
//
// It never decides anything: no membership, lease or leader follows from it alone.
package gossip
