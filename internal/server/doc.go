// Package server runs nodes in this process: each with its servers for clients, for other
// nodes and for operators (health, metrics, profiles), from the first port that is tried to
// the last stream that is drained. `rota server` runs one, `rota dev` a whole cluster.
//
// It is where a cluster.Node meets the protocol of transport, which do not know each other.
// It never reads a flag and decides nothing about jobs.
package server
