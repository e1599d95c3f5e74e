// Package refuse makes the refusals that several parts of the state machine share.
//
// It never decides whether to refuse.
package refuse
