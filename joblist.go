package rota

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	Queue  QueueName
	State  JobState
	Tenant TenantID
	Type   JobType
	// Where is a line of terms that a job must fit as well, such as
	// "label.team=film -type=mail age>1h" (SPEC §21.6).
	Where string
	// Count asks for how many there are in place of the jobs, and GroupBy, which is
	// "fingerprint" or nothing, for how many of each group.
	Count   bool
	GroupBy string
	// Limit bounds what is listed. Of a node's page it is at most 1000, and 0 means 100;
	// a listing of the client library has as many pages as it takes, and 0 means all.
	Limit int
	// Cursor continues after a page: its NextCursor.
	Cursor string
}

// JobPage is one page of jobs, the newest first: live ones, then nodes that wait for their parents, then
// terminal ones by their end.
type JobPage struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty"`
	// Counted is set where the filter asks for a count.
	Counted *JobCount `json:"counted,omitempty"`
}

// JobCount is how many jobs a filter selects.
type JobCount struct {
	Count int64 `json:"count"`
	// Groups are in the order in which they were met.
	Groups []JobGroup `json:"groups,omitempty"`
	// Complete reports that all jobs were looked at; NextCursor goes on where not.
	Complete   bool   `json:"complete"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// JobGroup is a count of dead jobs that failed alike, with one of them.
type JobGroup struct {
	Fingerprint Hex     `json:"fingerprint,omitempty"`
	Count       int64   `json:"count"`
	Job         JobID   `json:"job"`
	Type        JobType `json:"type"`
	Reason      Reason  `json:"reason,omitempty"`
	Error       string  `json:"error,omitempty"`
}
