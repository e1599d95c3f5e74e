// Package virtual runs real clusters in virtual time: real hashicorp/raft with our
// stores and stream layer, real nodes (package cluster), real gRPC servers and peers
// (package transport), real clients and workers (package client), all inside
// testing/synctest bubbles, where hours pass in seconds. Only the wires, gossip, the
// clocks and the speed of disks are its own.
//
// A life is one cluster from its founding to its end: users submit, cancel and
// retry jobs and small workflows, and use keys, unique keys, batches, plans and gates,
// schedules are due, workers work, hostile ones speak for others, and faults come from a seed. Between stretches of faults all is healed, and what SPEC
// §3.11 and §2 promise is measured. One worker, the steady one, is spared all faults:
// no lease of its may end, whatever becomes of the nodes.
//
//	make virtual                                  what CI runs
//	make virtual VIRTUAL=100h SEED=7              by hand
//	ROTA_VIRTUAL=30m ROTA_VIRTUAL_SEED=7 go test -run TestLives ./test/virtual    one life
//	ROTA_VIRTUAL_LOG=DIR ...                      each life's log in a file of its own
//
// The seed gives the schedule of faults and work, not the run: goroutines are
// scheduled as ever, so a failure may need its seed several times. What is repeatable
// to the bit is test/sim; what is real to the kernel, test/jepsen-lite.
//
// The wires are streams as TCP's: what is sent across a cut waits until it is healed,
// a crash resets, or says nothing until the host is back. raft's log, term and vote
// lie in real files. A crash leaves on disk what was written at that moment: a write
// that waits on a slow disk is lost, and so are answers under way.
//
// Nodes are replaced: removed, leaving, or with their data gone; who comes back under
// the old id must be refused, and a fresh one takes its place, by a snapshot from the
// others. All nodes are restarted in turn.
//
// What it is blind to, and where that is seen: damaged files and snapshots (package
// cluster), a lost fsync, as nothing here is synced (cluster, TestPowerLoss), gossip
// (test/jepsen-lite), real pauses of a process: here timers go on, and only what they
// measure leaps.
//
// It never opens a socket, is never part of what ships, and retries nothing to hide a
// failure.
package virtual
