package words

import (
	"github.com/rotasched/rota/internal/limits"
)

// StreamWindow and ConnWindow are the bytes that either end may have on the way to the
// other unread, on one call and on all calls of a connection. They are fixed: left to
// itself gRPC measures how much a line could hold, with a ping for almost every message of
// a quiet connection, and those pings with their answers were four of ten writes at 500
// jobs/s. A stream's window holds the greatest message, so none waits for leave to go on; a
// connection's holds a few of them, and bounds what a hostile end can have kept here.
const (
	StreamWindow = limits.MaxMessageBytes
	ConnWindow   = 4 * limits.MaxMessageBytes
)
