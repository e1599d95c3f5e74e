// Package loadgen makes the load of `rota bench` and `rota demo` and keeps its account:
// producers that submit jobs on a schedule or as fast as they are answered, workers that
// complete them, and a ledger from which losses, duplicates and times are read.
//
// It never prints, never starts a server, and never takes a loss or a completion for
// granted: what is not known of a job is asked.
package loadgen
