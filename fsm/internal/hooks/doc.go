// Package hooks owns the webhooks: their cursors over the events, and the results of their deliveries (SPEC §13.14).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never sends anything: a delivery is a job.
package hooks
