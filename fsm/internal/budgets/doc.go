// Package budgets owns budgets and their accounts, and the classes of QUEUED jobs that wait for them (SPEC §30.5).
//
// What it needs of the other parts of the state machine is in Ports. It knows none of them.
//
// It never stops an attempt itself, and never learns what a unit is.
package budgets
