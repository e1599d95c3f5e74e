// Package console has the files of the web console and serves them under /ui.
//
// They are built from console/src by `make console` and committed, so that building the binary needs no Node. The page
// is a client of the HTTP API like any other: anyone may load it, and it shows nothing before the API has answered it.
// The headers of each response set where it may connect to, that no page may frame it, and that it runs only its own
// code.
//
// It never reads a job or asks a node anything, never sets a cookie, and never serves a file that was not built into
// the binary.
package console
