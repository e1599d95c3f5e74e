// Package zones opens the time zones by which a state's dates are calculated, and reports their age and the zones that
// this node lacks.
//
// The package never installs time zones: an operation in the log does.
package zones
