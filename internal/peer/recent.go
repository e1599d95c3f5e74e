package peer

import "github.com/rotasched/rota"

// RecentMinutes is how many minutes QueueRecent covers.
const RecentMinutes = 15

// QueueRecent holds the jobs that ended in a queue in the last RecentMinutes minutes, as a node counted them.
type QueueRecent struct {
	// Completed and Failed are jobs by minute, oldest first; Failed are DEAD and EXPIRED.
	Completed, Failed [RecentMinutes]int64
	// First is when the first of the failed jobs failed, 0 for none; Job is the newest of them, Error what it reported.
	First rota.Date
	Job   rota.JobID
	Error string
	// UsualWaitMs is how long the oldest job usually waits: the 95th percentile of the samples
	// of the last day, one a minute; 0 without a sample.
	UsualWaitMs int64
}

// FailedJobs returns the sum of Failed.
func (r *QueueRecent) FailedJobs() (n int64) {
	for _, m := range r.Failed {
		n += m
	}
	return n
}
