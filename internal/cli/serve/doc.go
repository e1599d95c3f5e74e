// Package serve has the commands that run a node, `rota server` and `rota dev`, with `rota tls` and `rota version`.
//
// It never holds a rule of scheduling: internal/server runs the nodes.
package serve
