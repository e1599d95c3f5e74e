package rota

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	Queue  QueueName
	State  JobState
	Tenant TenantID
	Type   JobType
	// Where is a line of further terms that a job must match, such as "label.team=film -type=mail age>1h" (SPEC §21.6).
	Where string
	// Count requests the number of jobs instead of the jobs. GroupBy, which is "fingerprint" or empty, requests the
	// number of jobs in each group.
	Count   bool
	GroupBy string
	// Limit is the maximum number of jobs. For one page of a node it is at most 1000, and 0 means 100. The client
	// library reads as many pages as necessary, and 0 means all jobs.
	Limit int
	// Cursor is the NextCursor of the page before; the list continues after that page.
	Cursor string
}

// JobPage is one page of jobs, newest first: live jobs, then nodes that wait for their parents, then terminal jobs by
// the time of their end.
type JobPage struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty"`
	// Counted is set if the filter requests a count.
	Counted *JobCount `json:"counted,omitempty"`
}

// JobCount is the number of jobs that a filter selects.
type JobCount struct {
	Count int64 `json:"count"`
	// Groups are in the order in which they were found.
	Groups []JobGroup `json:"groups,omitempty"`
	// Complete reports that all jobs were examined; otherwise continue with NextCursor.
	Complete   bool   `json:"complete"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// JobGroup is a count of dead jobs that failed in the same way, with one of them.
type JobGroup struct {
	Fingerprint Hex     `json:"fingerprint,omitempty"`
	Count       int64   `json:"count"`
	Job         JobID   `json:"job"`
	Type        JobType `json:"type"`
	Reason      Reason  `json:"reason,omitempty"`
	Error       string  `json:"error,omitempty"`
}
