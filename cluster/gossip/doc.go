// Package gossip finds the other nodes of a cluster over hashicorp/memberlist: their ids, their addresses, and their
// cluster. Received data may come from an attacker and is checked before it is decoded.
//
// Gossip alone never changes the membership, a lease or the leader.
package gossip
