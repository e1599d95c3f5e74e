//go:build !testclock

package server

const testClockBuilt = false
