package peer

import (
	"time"

	"github.com/rotasched/rota"
)

// Sample holds a node's counts in one step, and the gauges at its end.
type Sample struct {
	Date rota.Date
	// Submitted counts jobs that became pending for the first time, Started attempts that began, LeasesLost leases that
	// expired or were revoked.
	Submitted, Started, Completed, Dead, Expired, Cancelled, Retried, LeasesLost int64
	Gauges
}

// Gauges holds values at a moment.
type Gauges struct {
	Pending, Running, Workers, StateBytes int64
	Index                                 rota.Index
	// Commit is the median of the latest commits at the leader; 0 elsewhere.
	Commit time.Duration
}

// Less returns the counts by which s is more than before.
func (s *Sample) Less(before *Sample) Sample {
	return Sample{Submitted: s.Submitted - before.Submitted, Started: s.Started - before.Started,
		Completed: s.Completed - before.Completed,
		Dead:      s.Dead - before.Dead, Expired: s.Expired - before.Expired, Cancelled: s.Cancelled - before.Cancelled,
		Retried: s.Retried - before.Retried, LeasesLost: s.LeasesLost - before.LeasesLost}
}

// Add adds the counts of another sample.
func (s *Sample) Add(more *Sample) {
	s.Submitted += more.Submitted
	s.Started += more.Started
	s.Completed += more.Completed
	s.Dead += more.Dead
	s.Expired += more.Expired
	s.Cancelled += more.Cancelled
	s.Retried += more.Retried
	s.LeasesLost += more.LeasesLost
}

// Stats holds a node's own figures, oldest first.
type Stats struct {
	Step    time.Duration
	Samples []Sample
}
