// Package stream carries raft between nodes. A connection (Layer) begins with a handshake
// in which both sides show cluster, node and the identity of their data directory, and is
// metered afterwards, as raft decodes without bounds. A Transport stands between raft and
// these connections: it sends what this node may say, it tells followers of commits at
// once, and a guard looks at every request before raft does.
//
// It never decides who is a member, and never believes what another node sends.
package stream
