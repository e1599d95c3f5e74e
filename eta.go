package rota

// ETA is the answer of `job eta`: when a job should start (SPEC §29).
type ETA struct {
	Job   JobID    `json:"job"`
	State JobState `json:"state"`
	// Index, Clock and Date are those of the state that the forecast started from, on the node that answers.
	Index Index `json:"index"`
	Clock Clock `json:"clock_ms"`
	Date  Date  `json:"date_ms"`
	// Started is when the newest attempt of a running or ended job began; 0 if there was none.
	Started Date `json:"started_ms,omitempty"`
	// Expected is when a pending job should start. At least 9 of 10 such jobs should start between Earliest and Latest.
	// All three are 0 if no date can be given; Reasons and WouldRun then show what prevents the start.
	Expected Date `json:"expected_start_ms,omitempty"`
	Earliest Date `json:"earliest_start_ms,omitempty"`
	Latest   Date `json:"latest_start_ms,omitempty"`
	// HangsOn lists what the job waits for, limited to what the caller may read.
	HangsOn []HangsOn `json:"hangs_on,omitempty"`
	// Basis describes the data from which the dates were calculated.
	Basis    []string `json:"basis,omitempty"`
	Reasons  []Why    `json:"reasons,omitempty"`
	WouldRun []string `json:"would_run_if,omitempty"`
}

// HangsOn counts jobs of a tenant that run before another job, limited to jobs that the caller may read.
type HangsOn struct {
	Tenant TenantID `json:"tenant,omitempty"`
	// Jobs is the number of jobs. If Running is set, they run on Worker and end before the job starts there; otherwise
	// they are pending, and start before it on workers that serve its queue.
	Jobs    int64    `json:"jobs"`
	Running bool     `json:"running,omitempty"`
	Worker  WorkerID `json:"worker,omitempty"`
}
