//go:build !linux

package main

// sleepLong does nothing: other systems have no such setting.
func sleepLong() {}
