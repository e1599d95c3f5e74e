//go:build !linux

package server

// WakeLate does nothing: other systems have no such setting.
func WakeLate() {}
