package rest

// Stats are a node's own figures, a column each, oldest first: a place in every column is one
// step. What happened while a node fetched a snapshot is in none.
type Stats struct {
	// Node is the one whose they are.
	Node string `json:"node"`
	// StepMs is how long a step is.
	StepMs int64 `json:"step_ms"`
	// DateMs are the ends of the steps, by the node's own clock.
	DateMs []int64 `json:"date_ms"`
	// Submitted are jobs that came to wait for the first time.
	Submitted []int64 `json:"submitted"`
	// Started are attempts that began.
	Started   []int64 `json:"started"`
	Completed []int64 `json:"completed"`
	Dead      []int64 `json:"dead"`
	Expired   []int64 `json:"expired"`
	Cancelled []int64 `json:"cancelled"`
	Retried   []int64 `json:"retried"`
	// LeasesLost are those that ran out or were revoked.
	LeasesLost []int64 `json:"leases_lost"`
	// Pending are the jobs that waited at the end of the step, Running those with a worker.
	Pending    []int64 `json:"pending"`
	Running    []int64 `json:"running"`
	Workers    []int64 `json:"workers"`
	StateBytes []int64 `json:"state_bytes"`
	Index      []int64 `json:"index"`
	// CommitUs is the median of the latest commits, in microseconds; 0 at nodes that do not lead.
	CommitUs []int64 `json:"commit_us"`
}
