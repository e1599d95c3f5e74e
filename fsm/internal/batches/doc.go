// Package batches counts the jobs of batches, and submits the callback of each that has ended (SPEC §24).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never waits for a batch: the entry that ends its last job submits the callback.
package batches
