// Package loadgen generates the load of `rota bench` and `rota demo` and records its results: producers that submit
// jobs on a schedule or as fast as they are answered, workers that complete them, and a ledger of losses, duplicates
// and times.
//
// It never prints, never starts a server, and never assumes a loss or a completion: it asks the cluster about jobs with
// an unknown state.
package loadgen
