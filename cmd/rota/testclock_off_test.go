//go:build !testclock

package main

const testClockBuilt = false
