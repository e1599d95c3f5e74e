// Package plans owns the plans: one verb for all jobs that a filter selects, a step per entry (SPEC §21.7).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never applies a verb itself: the machine does, one job at a time.
package plans
