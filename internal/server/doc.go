// Package server runs nodes in this process: each with its servers for clients, for other nodes and for operators
// (health, metrics, profiles), from the first port that is tried to the last stream that is drained. `rota server` runs
// one, `rota dev` a whole cluster.
//
// It connects cluster.Node with the protocol of package transport; the two do not import each other. It never reads a
// flag and never decides anything about jobs.
package server
