// Package fault breaks a cluster: it runs nodes and workers as processes or containers, on networks and disks of its
// own, and lets nemeses strike them, one file each.
//
//   - nemesis.go lists the nemeses, plan.go makes all pairs of them meet;
//   - cluster.go is the nodes, hand.go a worker, process.go any of them;
//   - network*.go are where they live and how they reach each other;
//   - disk*.go are data directories that lose, hang, fail and fill.
//
// It never judges, never ends a process that it did not start, and never leaves a network or a process behind.
package fault
