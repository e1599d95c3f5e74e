// Package access says who may do what: rights and the grants of them, roles, access tokens
// with their secrets, and the caller of an operation. It judges by what it is given: the
// state machine holds the tables, and the edge of a node reads them.
//
// It never reads a clock or draws by chance, so that all nodes judge alike.
package access
