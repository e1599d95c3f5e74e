// Package lab has the commands that measure and foresee: bench, demo, simulate and what-if.
//
// It never measures in a cluster that it was not pointed at: demo starts its own.
package lab
