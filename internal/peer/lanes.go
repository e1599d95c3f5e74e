package peer

import (
	"time"

	"github.com/rotasched/rota"
)

// Lanes are the largest lanes of a queue.
type Lanes struct {
	Queue rota.QueueName
	// Lanes and Throttled count all of them; 0 where not all may be read.
	Lanes, Throttled int64
	// First are the largest of them, or those with the oldest jobs.
	First []Lane
}

// LanesQuery says which lanes of a queue are wanted: the largest, or those whose oldest jobs have
// waited longest.
type LanesQuery struct {
	Queue  rota.QueueName
	Most   int
	Oldest bool
}

// Lane is a lane: jobs of one tenant, class, domain, and kind of priority that wait.
type Lane struct {
	Tenant rota.TenantID
	Type   rota.JobType
	Domain string
	Keys   []string
	// Jobs counts those that wait, OldestWait is how long the oldest of them does.
	Jobs       int64
	OldestWait time.Duration
	// Oldest is that one; Head is its first job in rank, with that job's priority.
	Oldest   rota.JobID
	Head     rota.JobID
	Priority int32
	// Throttled says that rounds do not draw from it; Reasons are why nothing of it is placed.
	Throttled bool
	Reasons   []rota.Why
}
