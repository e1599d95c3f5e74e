// Package access defines access control: rights and the grants of them, roles, access tokens with their secrets, and
// the caller of an operation. It decides only from its inputs: the state machine holds the tables, and the edge of a
// node reads them.
//
// It never reads a clock or uses randomness, so that all nodes decide alike.
package access
