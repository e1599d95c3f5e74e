// Package state is the base of the state machine's parts: the rows, by noun, in copy-on-write tables with their
// canonical form and digest; the header, the clock and the timers; the journal of events. The type State holds what
// every part may use.
//
// Its names are exported only for package fsm, which owns the rules. It never decides: no function here knows a verb.
package state
