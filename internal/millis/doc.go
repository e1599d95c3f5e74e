// Package millis converts between a time.Duration, which Go programs see, and the whole
// milliseconds of the wire, of JSON and of the state.
//
// The package never reads a clock.
package millis
