// Package replica holds a node's copy of the state: entries are applied to it, and reads are served from it. Read waits
// until the state is as fresh as the caller requires. The hub wakes callers that wait for applied entries, and a
// WorkerSession delivers leases to a worker that is connected to this node.
//
// Mu is the apply lock. Applying holds it exclusively, reads share it. The order of locks is Placing, Mu, the hub's, a
// session's.
//
// The package never applies an entry and never decides who leads: the node does, and connects its replica by a Host.
package replica
