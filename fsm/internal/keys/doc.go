// Package keys applies the rules of keys to jobs: limits, rates, sequences, turns, pauses and breakers (SPEC §19, 30.2,
// 30.4).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never chooses a job: it says which counts are full, and rounds draw from the other lanes.
package keys
