// Command jepsen-lite breaks a cluster of real `rota server` processes on
// purpose, keeps users busy with it meanwhile, and judges what they were told.
//
//	go run ./test/jepsen-lite --duration 120s --seed 7 --nodes 3 -o json
//
// It prints one verdict and writes a history (history.json.gz) and a report
// (report.html); the exit code is 1 where a promise was broken. --recheck FILE
// judges a saved history again, with today's checkers.
//
// # How it is built
//
// Nodes and workers are processes of their own, so killing and pausing them is
// real, and all read the one monotonic clock of the host, so their intervals can
// be compared. Where network namespaces can be made each process has one, with
// this program as the router between them: a partition is a route that swallows
// packets silently, in one direction if so wished. A bad link leads through a TUN
// device, out of which this program lets packets go on late, twice, early, never, or
// as resets of their connection (fault/network_link*.go). Elsewhere all stand on loopback
// and no partition or bad link is made, which the verdict says. A proxy for each
// directed link is not to be had there: a node listens at the very addresses that it
// tells all others by one gossip (--api, --raft, --gossip; none is for telling alone),
// and calls from no address of its own, so no proxy can stand between two nodes that
// does not stand between all, nor tell who calls.
//
// The binary is built with the tag testclock, by which each node's wall clock is
// moved through a file, and by nothing in the binary that people run
// (internal/server/testclock.go). With --via docker they
// are containers of docker-compose.yml, which are killed, paused and disconnected
// from their network (fault/network_containers.go).
//
// With --locked the cluster has TLS, a gossip key and no rights for who shows no token.
// Every user has a token of a role that grants no more than it needs; those of producers,
// readers and workers are replaced and revoked meanwhile, in this order or the other, and
// a thief goes on with the old ones (fault/lock.go, fault/revoke.go).
//
// With --recover it does not end there: a node dies for good, and then all do, of which
// one is recovered from its disk (fault/lost.go, workload/aftermath.go).
//
// # Where things stand
//
//   - fault: nodes, networks, disks, and the nemeses that strike them;
//   - workload: users and workers, and the order of a run;
//   - check: the history, the promises and the report.
//
// Faults go on until the duration is over; then everything is mended, and only
// then liveness is judged. Safety is judged over all of it.
//
// It never looks inside the product: it knows the binary's flags, the client
// library and the public protocol. It never invents an outcome that it did not
// see, never ends a process that it did not start, never judges a partition that
// it could not make, and never leaves a network or a process behind.
package main
