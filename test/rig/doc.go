// Package rig starts, watches and ends real processes for tests and measurements: it builds the binary, finds free
// ports, runs nodes that are killed and restarted on one directory, waits until they serve, and keeps a ledger of the
// jobs that a cluster has acknowledged.
//
//	binary, err := rig.Build(dir)
//	nodes, err := rig.NewNodes(3, dir, binary)
//	err = nodes.Start(ctx)    // until all serve
//	defer nodes.Stop(time.Minute)
//	nodes[0].Kill()
//	err = nodes[0].Start()
//
// Test programs add their own faults, loads, checks and verdicts.
//
// The package never imports the server's packages, never ends a process that it did not start, and never listens beyond
// loopback.
package rig
