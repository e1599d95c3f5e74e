// Command bench measures a cluster of three on this machine and writes what it saw, with
// the machine, the versions and the command, into docs/internals/performance/tables.md: `make bench`.
//
// It starts three `rota server` processes on loopback with fresh data directories, runs
// `rota bench jobs` against them, as fast as it goes and at fixed rates in turns, takes
// medians, and ends the servers. Other modes, each with a target of its own: another binary
// in turns with this one (bench-against), NATS JetStream in turns with it (bench-nats), where
// the CPU goes (bench-profile), curves over pending jobs and workers, many queues and tenants,
// restarts and joins (bench-scale), one server alone (bench-alone), servers at rest (bench-rest), more load than the servers
// can do (bench-overload), the same load for long (bench-soak). The last two judge, and fail
// where something does not hold.
//
// It never compares with figures of another machine or another hour: `make bench-compare`
// does that for single pieces, bench-against for the whole, both in one run.
package main
