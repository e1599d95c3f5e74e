// Package verbs implements the operations that users and operators call: on jobs, workflows, batches, schedules,
// plans, webhooks, workers, settings and rights. A verb turns its input into operations, proposes them, and reads the
// result from the replica.
//
// The package never knows the leader and never calls another verb's steps: it reaches the node through a Host.
package verbs
