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
	// Size seals the batch once it has so many jobs; without it somebody seals it.
	Size int64 `json:"size,omitempty"`
	// Callback is the job that is submitted once all have ended. It has no id of its own.
	Callback rota.JobSpec `json:"callback"`
}

// Schedules is a list of schedules by name.
type Schedules struct {
	Schedules  []rota.Schedule `json:"schedules"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// Dates are dates to come, in Unix milliseconds.
type Dates struct {
	Dates []rota.Date `json:"dates"`
	// TZData identifies the time zones by which they were calculated: a release such as 2026f, followed by a part of its
	// hash where it was installed on the cluster.
	TZData string `json:"tzdata"`
}

// SchedulePause pauses a schedule.
type SchedulePause struct {
	// Reason is shown with the schedule.
	Reason string `json:"reason,omitempty"`
}

// ScheduleResumption resumes a schedule.
type ScheduleResumption struct {
	// CatchUp takes the dates that passed meanwhile, as the schedule catches up.
	CatchUp bool `json:"catch_up,omitempty"`
}

// ScheduleRun runs a schedule's job now.
type ScheduleRun struct {
	// ID makes the run, so that a repetition of the call is known.
	ID string `json:"id"`
}

// Backfill runs dates of a schedule that have passed; what is known does not run again.
type Backfill struct {
	// FromMs and UntilMs bound the dates, of which there are 1,000 at most, in Unix
	// milliseconds; FromAt and UntilAt are the same in RFC 3339.
	FromMs  int64  `json:"from_ms,omitempty"`
	FromAt  string `json:"from_at,omitempty"`
	UntilMs int64  `json:"until_ms,omitempty"`
	UntilAt string `json:"until_at,omitempty"`
	// Overlap is queue_all where it is not given.
	Overlap string `json:"overlap,omitempty"`
}

// Backfilled is how many dates of a schedule were taken.
type Backfilled struct {
	Dates    int64         `json:"dates"`
	Schedule rota.Schedule `json:"schedule"`
}

// Handover names who shall lead.
type Handover struct {
	// To is a node's id; without it the leader chooses.
	To string `json:"to,omitempty"`
}

// Led says who leads.
type Led struct {
	Leader rota.NodeID `json:"leader"`
}

// Peers is the Raft configuration.
type Peers struct {
	Peers []rota.RaftPeer `json:"peers"`
}

// ModeChange changes what the cluster admits.
type ModeChange struct {
	// Mode is NORMAL, DEGRADED, READ_ONLY or DRAINING.
	Mode string `json:"mode"`
	// Reason is shown to whoever is refused by it.
	Reason string `json:"reason"`
}

// Settings change settings of a queue, a tenant or the cluster; what is not named stays.
type Settings struct {
	// Preset is where a queue starts from; none changes the queue as it is.
	Preset string `json:"preset,omitempty"`
	// Set has a value for each key that changes, as the command line takes it: a text such as
	// "1h" or "64MiB", a number, or true and false.
	Set map[string]Value `json:"set,omitempty"`
}

// Deleted is the answer to a deletion.
type Deleted struct {
	// Left is how many live jobs a queue that is drained still has: repeat the call until
	// it is 0.
	Left uint64 `json:"left,omitempty"`
}
