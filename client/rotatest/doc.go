// Package rotatest runs a whole cluster inside a test: real nodes, Raft, gRPC, clients and workers, in a
// bubble of testing/synctest. An hour passes as soon as everybody waits for it.
//
//	rotatest.Run(t, func(c *rotatest.Cluster) {
//		signUp(c.Context(), c.Client(), "ann")
//		rotatest.RequireSubmitted(c, Welcome, func(m Mail) bool { return m.To == "ann" })
//		out, err := rotatest.Work(c, Welcome, sendMail) // runs the next one
//		c.Advance(24 * time.Hour)
//	}, rotatest.Nodes(3))
//
// What the cluster decides is a function of its log's entries. Which entries there are depends on how
// goroutines are scheduled, so two runs of a test may differ; a test that fails leaves the data of a
// node behind, whose entries replay exactly, and logs where.
//
// All rules of testing/synctest hold in the test's function: what it waits for happens within the
// bubble, so no network and no other process; it starts no subtests and does not call t.Parallel; and
// goroutines that it starts end with it.
//
// The package never opens a socket or sleeps in real time, and no program links it: it is for tests.
package rotatest
