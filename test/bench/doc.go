// Command bench measures a cluster of three on this machine and writes the results, with the machine, the versions and
// the command, into docs/internals/performance/tables.md: `make bench`.
//
// It starts three `rota server` processes on loopback with fresh data directories, runs `rota bench jobs` against them,
// alternating between maximum speed and fixed rates, calculates medians, and ends the servers. Other modes, each with a
// separate target: another binary alternating with this one (bench-against), NATS JetStream alternating with it
// (bench-nats), where the CPU goes (bench-profile), curves over pending jobs and workers, many queues and tenants,
// restarts and joins (bench-scale), one server alone (bench-alone), servers at rest (bench-rest), more load than the
// servers can handle (bench-overload), the same load for a long time (bench-soak). The last two judge, and fail if a
// limit does not hold.
//
// It never compares with figures of another machine or another hour: `make bench-compare` does that for single parts,
// bench-against for the whole, both in one run.
package main
