// Package peer holds the messages between the programs of a cluster that users do not see: requests and answers among
// nodes, the freshness of a read, and messages on leases between a worker's library and its node.
//
// The package holds data alone, and never decides anything.
package peer
