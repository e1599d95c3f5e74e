// Package clock reads the machine's monotonic clock and creates tickers.
//
// The package never reads the wall clock.
package clock
