// Package unique holds the unique keys of jobs, their successors, and the submissions merged into holders (SPEC §18).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never starts a job, except a successor at the end of an entry.
package unique
