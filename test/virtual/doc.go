// Package virtual runs real clusters in virtual time: real hashicorp/raft with our stores and stream layer, real nodes
// (package cluster), real gRPC servers and peers (package transport), real clients and workers (package client), all
// inside testing/synctest bubbles, where hours pass in seconds. Only the wires, gossip, the clocks and the speed of
// disks are its own.
//
// A life is one cluster from its founding to its end: users submit, cancel and retry jobs and small workflows, and use
// keys, unique keys, batches, plans and gates; schedules fire; workers work; hostile clients impersonate others; and
// faults come from a seed. Between stretches of faults everything is healed, and the promises of SPEC §3.11 and §2 are
// measured. One worker, the steady one, is spared all faults: none of its leases may end, whatever happens to the
// nodes.
//
//	make virtual                                  what CI runs
//	make virtual VIRTUAL=100h SEED=7              by hand
//	ROTA_VIRTUAL=30m ROTA_VIRTUAL_SEED=7 go test -run TestLives ./test/virtual    one life
//	ROTA_VIRTUAL_LOG=DIR ...                      each life's log in a file of its own
//
// The seed determines the schedule of faults and work, not the run: goroutines are scheduled as usual, so a failure may
// need several runs of its seed. For runs repeatable to the bit see test/sim; for real kernels, test/jepsen-lite.
//
// The wires are streams like TCP's: data sent across a cut waits until it is healed; a crash resets the connection, or
// stays silent until the host is back. raft's log, term and vote are in real files. A crash leaves on disk the data
// written at that moment: a write that waits on a slow disk is lost, and so are answers in flight.
//
// Nodes are replaced: removed, leaving, or with their data lost; a node that comes back under the old id must be
// refused, and a fresh one takes its place, by a snapshot from the others. All nodes are restarted in turn.
//
// It cannot find these faults: damaged files and snapshots (see package cluster), a lost fsync, because nothing here is
// synced (see cluster, TestPowerLoss), gossip (see test/jepsen-lite), and real pauses of a process: here timers
// continue, and only the clocks they measure leap.
//
// It never opens a socket, is never part of a release, and retries nothing to hide a failure.
package virtual
