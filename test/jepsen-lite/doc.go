// Command jepsen-lite breaks a cluster of real `rota server` processes on purpose, keeps users busy with it meanwhile,
// and judges the answers that they got.
//
//	go run ./test/jepsen-lite --duration 120s --seed 7 --nodes 3 -o json
//
// It prints one verdict and writes a history (history.json.gz) and a report (report.html); the exit code is 1 if a
// promise was broken. --recheck FILE judges a saved history again, with today's checkers.
//
// # How it is built
//
// Nodes and workers are separate processes, so killing and pausing them is real. All read the host's single monotonic
// clock, so their intervals can be compared. Where network namespaces are available each process has one, with this
// program as the router between them: a partition is a route that swallows packets silently, in one direction if
// configured so. A bad link leads through a TUN device, from which this program releases packets late, twice, early,
// never, or as resets of their connection (fault/network_link*.go). Elsewhere all processes run on loopback and no
// partition or bad link is made, which the verdict states. A proxy for each directed link is not possible there: a node
// listens at the same addresses that it announces to all others by one gossip (--api, --raft, --gossip; there is no
// separate advertised address), and its outgoing calls have no fixed source address. So a proxy cannot sit between two
// nodes without sitting between all, and cannot identify the caller.
//
// The binary is built with the tag testclock, which allows each node's wall clock to be moved through a file; the
// released binary has no such feature (internal/server/testclock.go). With --via docker the nodes are containers of
// docker-compose.yml, which are killed, paused and disconnected from their network (fault/network_containers.go).
//
// With --locked the cluster has TLS, a gossip key and no rights for callers without a token. Every user has a token of
// a role that grants no more than it needs; the tokens of producers, readers and workers are replaced and revoked
// meanwhile, in this order or the other, and a thief keeps using the old ones (fault/lock.go, fault/revoke.go).
//
// With --recover two more phases follow: a node dies for good, and then all do, and one is recovered from its disk
// (fault/lost.go, workload/aftermath.go).
//
// # Packages
//
//   - fault: nodes, networks, disks, and the nemeses that act on them;
//   - workload: users and workers, and the order of a run;
//   - check: the history, the promises and the report.
//
// Faults go on until the duration is over; then everything is repaired, and only then liveness is judged. Safety is
// judged over the whole run.
//
// The program never looks inside the product: it uses the binary's flags, the client library and the public protocol.
// It never invents an outcome that it did not see, never ends a process that it did not start, never judges a partition
// that it could not make, and never leaves a network or a process behind.
package main
