// Package stream carries raft between nodes. A connection (Layer) begins with a handshake in which both sides present
// cluster, node and the identity of their data directory. Afterwards it is metered, because raft decodes without
// bounds. A Transport connects raft to these connections: it sends only what this node is allowed to send, notifies
// followers of commits immediately, and its guard checks every request before raft receives it.
//
// It never decides which nodes are members, and never trusts what another node sends.
package stream
