package rest

// Stats are the statistics of one node, in columns, oldest first: each position is one step. Events during the fetch of
// a snapshot are not counted.
type Stats struct {
	// Node is the node of the statistics.
	Node string `json:"node"`
	// StepMs is the length of a step.
	StepMs int64 `json:"step_ms"`
	// DateMs are the ends of the steps, by the node's clock.
	DateMs []int64 `json:"date_ms"`
	// Submitted counts the jobs that became pending for the first time.
	Submitted []int64 `json:"submitted"`
	// Started counts the attempts that began.
	Started   []int64 `json:"started"`
	Completed []int64 `json:"completed"`
	Dead      []int64 `json:"dead"`
	Expired   []int64 `json:"expired"`
	Cancelled []int64 `json:"cancelled"`
	Retried   []int64 `json:"retried"`
	// LeasesLost counts the leases that expired or were revoked.
	LeasesLost []int64 `json:"leases_lost"`
	// Pending counts the jobs that were pending at the end of the step, Running those with a worker.
	Pending    []int64 `json:"pending"`
	Running    []int64 `json:"running"`
	Workers    []int64 `json:"workers"`
	StateBytes []int64 `json:"state_bytes"`
	Index      []int64 `json:"index"`
	// CommitUs is the median of the latest commits, in microseconds; 0 at nodes that do not lead.
	CommitUs []int64 `json:"commit_us"`
}
