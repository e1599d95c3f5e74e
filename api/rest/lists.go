package rest

import "github.com/rotasched/rota"

// Queues is a list of queues by name.
type Queues struct {
	Queues     []rota.Queue `json:"queues"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

// Tenants is a list of tenants by id.
type Tenants struct {
	Tenants    []rota.Tenant `json:"tenants"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// Workers is a list of workers by id.
type Workers struct {
	Workers    []rota.Worker `json:"workers"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// Batches is a list of batches by id.
type Batches struct {
	Batches    []rota.Batch `json:"batches"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

// BatchOpening opens a batch.
type BatchOpening struct {
	// Size is the number of jobs that seals the batch; without it, a call must.
	Size int64 `json:"size,omitempty"`
	// Callback is the job that is submitted once all jobs have ended. It has no id of its own.
	Callback rota.JobSpec `json:"callback"`
}

// Schedules is a list of schedules by name.
type Schedules struct {
	Schedules  []rota.Schedule `json:"schedules"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// Dates are future dates, in Unix milliseconds.
type Dates struct {
	Dates []rota.Date `json:"dates"`
	// TZData identifies the time zones used: a release such as 2026f, and a part of its hash if it was installed on the
	// cluster.
	TZData string `json:"tzdata"`
}

// SchedulePause pauses a schedule.
type SchedulePause struct {
	// Reason is shown with the schedule.
	Reason string `json:"reason,omitempty"`
}

// ScheduleResumption resumes a schedule.
type ScheduleResumption struct {
	// CatchUp runs the dates that passed meanwhile, by the schedule's catch-up settings.
	CatchUp bool `json:"catch_up,omitempty"`
}

// ScheduleRun runs a schedule's job now.
type ScheduleRun struct {
	// ID identifies the run, so that a repeated call is recognised.
	ID string `json:"id"`
}

// Backfill runs past dates of a schedule that have no run.
type Backfill struct {
	// FromMs and UntilMs limit the dates, at most 1,000.
	FromMs  int64  `json:"from_ms,omitempty"`
	FromAt  string `json:"from_at,omitempty"`
	UntilMs int64  `json:"until_ms,omitempty"`
	UntilAt string `json:"until_at,omitempty"`
	// Overlap is the overlap policy, queue_all by default.
	Overlap string `json:"overlap,omitempty"`
}

// Backfilled is how many dates of a schedule were backfilled.
type Backfilled struct {
	Dates    int64         `json:"dates"`
	Schedule rota.Schedule `json:"schedule"`
}

// Handover names the node that should become leader.
type Handover struct {
	// To is a node's id; without it the leader chooses.
	To string `json:"to,omitempty"`
}

// Led names the leader.
type Led struct {
	Leader rota.NodeID `json:"leader"`
}

// Peers is the Raft configuration.
type Peers struct {
	Peers []rota.RaftPeer `json:"peers"`
}

// ModeChange changes which requests the cluster admits.
type ModeChange struct {
	// Mode is NORMAL, DEGRADED, READ_ONLY or DRAINING.
	Mode string `json:"mode"`
	// Reason is shown to callers that are refused because of the mode.
	Reason string `json:"reason"`
}

// Settings change settings of a queue, a tenant or the cluster; other keys stay unchanged.
type Settings struct {
	// Preset is the preset that a queue starts from; the default is its current settings.
	Preset string `json:"preset,omitempty"`
	// Set has a value for each key that changes, as on the command line: a string such as "1h" or "64MiB", a number,
	// true or false.
	Set map[string]Value `json:"set,omitempty"`
}

// Deleted is the answer to a deletion.
type Deleted struct {
	// Left is how many live jobs a drained queue still has: repeat the call until it is 0.
	Left uint64 `json:"left,omitempty"`
}
