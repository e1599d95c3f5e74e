// Package rotatest runs a whole cluster inside a test: real nodes, Raft, gRPC, clients and workers, in a bubble of
// testing/synctest. An hour passes as soon as every goroutine waits for it.
//
//	rotatest.Run(t, func(c *rotatest.Cluster) {
//		signUp(c.Context(), c.Client(), "ann")
//		rotatest.RequireSubmitted(c, Welcome, func(m Mail) bool { return m.To == "ann" })
//		out, err := rotatest.Work(c, Welcome, sendMail) // runs the next one
//		c.Advance(24 * time.Hour)
//	}, rotatest.Nodes(3))
//
// The cluster's decisions are a function of its log's entries. Which entries exist depends on how goroutines are
// scheduled, so two runs of a test may differ. A failed test keeps the data of one node, whose entries replay exactly,
// and logs where it is.
//
// All rules of testing/synctest apply to the test's function: what it waits for must happen within the bubble, so it
// uses no network and no other process; it starts no subtests and does not call t.Parallel; and the goroutines that it
// starts end with it.
//
// The package never opens a socket, never sleeps in real time, and is never linked into a program: it is for tests.
package rotatest
