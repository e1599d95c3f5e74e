// Package console has the files of the web console and serves them under /ui.
//
// They are built from console/src by `make console` and committed, so that building the binary
// needs no Node. The page is a client of the HTTP API like any other: it is loaded by anybody and
// shows nothing before the API has answered it. Where it may connect to, and that it is nobody's
// frame and runs no code but its own, is said in the headers of each response.
//
// It never reads a job or asks a node anything, never sets a cookie, and never serves a file that
// was not built into the binary.
package console
