// Command release embeds a release of the IANA time zone database (`make tzdata`):
//
//	go run ./internal/cron/release WHEEL
//
// It writes internal/cron/zones.bin and release_gen.go from the wheel of the PyPI package tzdata that
// internal/cron/tzdata.txt names. The same wheel always gives the same files.
//
// It never fetches the wheel, and never takes one with another SHA-256.
package main
