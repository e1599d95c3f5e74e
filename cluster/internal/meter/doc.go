// Package meter counts what a node does: its metrics, its samples of the last day, and the recently ended jobs of each
// queue. The counters belong to a node and are not global, so that several nodes may run in one process.
//
// The package never decides anything and never knows the node: it reads the state through a Peek.
package meter
