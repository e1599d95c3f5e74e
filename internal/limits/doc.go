// Package limits holds the limits of the machine, each with its reason: what bounds its
// tables, its log entries and its messages, and the times by which nodes and workers act.
// They are fixed in the binary. Those that the state machine reads give the log its meaning
// and change only behind a rules version. The limits of what a user gives stand in the root
// package, and what a user may set is a policy key.
//
// The package has no function, and never reads what a user may set.
package limits
