// Package state is the ground that the parts of the state machine stand on: the rows, by noun, in copy-on-write tables
// with their canonical form and digest; the header, the clock and the timers; the journal of events. State has what
// every part may use.
//
// Its names are exported for package fsm alone, which owns the rules. It never decides: no function here knows a verb.
package state
