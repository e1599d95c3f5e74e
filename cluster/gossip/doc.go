// Package gossip finds the other nodes of a cluster over hashicorp/memberlist: their ids, their addresses, and their
// cluster. Everything received is decoded as hostile input.
//
// It never decides anything: no membership, lease or leader follows from gossip alone.
package gossip
