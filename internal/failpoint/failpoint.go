//go:build !failpoints

package failpoint

// Pass ends the process if the point called name is armed.
func Pass(name string) {}
