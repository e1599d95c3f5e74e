package peer

import (
	"time"

	"github.com/rotasched/rota"
)

// Lanes holds the largest lanes of a queue.
type Lanes struct {
	Queue rota.QueueName
	// Lanes and Throttled count all of them; 0 if not all may be read.
	Lanes, Throttled int64
	// First holds the largest of them, or those with the oldest jobs.
	First []Lane
}

// LanesQuery selects lanes of a queue: the largest, or those whose oldest jobs have waited longest.
type LanesQuery struct {
	Queue  rota.QueueName
	Most   int
	Oldest bool
}

// Lane is a lane: pending jobs of one tenant, class, domain, and kind of priority.
type Lane struct {
	Tenant rota.TenantID
	Type   rota.JobType
	Domain string
	Keys   []string
	// Jobs counts its pending jobs; OldestWait is how long the oldest has waited.
	Jobs       int64
	OldestWait time.Duration
	// Oldest is the oldest job; Head is its first job in rank, with that job's priority.
	Oldest   rota.JobID
	Head     rota.JobID
	Priority int32
	// Throttled means that rounds do not draw from it; Reasons explain why none of its jobs is placed.
	Throttled bool
	Reasons   []rota.Why
}
