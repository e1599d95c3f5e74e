package rota

// ETA is the answer of `job eta`: when a job should start (SPEC §29).
type ETA struct {
	Job   JobID    `json:"job"`
	State JobState `json:"state"`
	// Index, Clock and Date of the state that was run ahead of, on the node that was asked.
	Index Index `json:"index"`
	Clock Clock `json:"clock_ms"`
	Date  Date  `json:"date_ms"`
	// Started is when the newest attempt began of a job that runs or has ended, 0 where none has.
	Started Date `json:"started_ms,omitempty"`
	// Expected is when a job that waits should start. At least 9 of 10 such jobs should start between Earliest and Latest. All three are 0 if no date can be given:
	// Reasons and WouldRun say what stands in the way then.
	Expected Date `json:"expected_start_ms,omitempty"`
	Earliest Date `json:"earliest_start_ms,omitempty"`
	Latest   Date `json:"latest_start_ms,omitempty"`
	// HangsOn is what it waits for, as far as the caller may know it.
	HangsOn []HangsOn `json:"hangs_on,omitempty"`
	// Basis says what the dates were reckoned from.
	Basis    []string `json:"basis,omitempty"`
	Reasons  []Why    `json:"reasons,omitempty"`
	WouldRun []string `json:"would_run_if,omitempty"`
}

// HangsOn counts jobs of a tenant that go before another job, as far as the caller may read them.
type HangsOn struct {
	Tenant TenantID `json:"tenant,omitempty"`
	// Jobs run on Worker and end before the job starts there; where Running is not set they are pending, and start before it
	// on workers that serve its queue.
	Jobs    int64    `json:"jobs"`
	Running bool     `json:"running,omitempty"`
	Worker  WorkerID `json:"worker,omitempty"`
}
