// Package peer holds what the programs of a cluster say to each other and no user meets:
// what nodes ask and answer among themselves, how fresh a read must be, and what a worker's
// library and its node say of leases.
//
// The package holds data alone, and never decides anything.
package peer
