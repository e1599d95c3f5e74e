package words

import (
	"github.com/rotasched/rota/internal/limits"
)

// StreamWindow and ConnWindow are the bytes that either end may have in flight unread, on one call and on all calls of
// a connection. They are fixed. Without them gRPC measures the capacity of the line, with a ping for almost every
// message of a quiet connection; those pings with their answers were four of ten writes at 500 jobs/s. A stream's
// window holds the largest message, so none waits for permission to continue. A connection's window holds a few of
// them, and bounds the memory that a hostile peer can occupy here.
const (
	StreamWindow = limits.MaxMessageBytes
	ConnWindow   = 4 * limits.MaxMessageBytes
)
