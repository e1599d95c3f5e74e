// Package learn holds what the ends of jobs teach: statistics of types, and estimates of run times (SPEC §5.3, 26.1).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never decides: rounds and queues use what it holds.
package learn
