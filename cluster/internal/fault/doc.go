// Package fault has the errors that several parts of a node return to callers: there is no leader, the outcome is
// unknown, the node stops, stalls, was removed, or its binary is too old.
//
// The package never decides when one of them applies.
package fault
