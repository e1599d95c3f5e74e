package peer

import "github.com/rotasched/rota"

// Beat is a worker's sign of life on its way to the leader (SPEC §3.9).
type Beat struct {
	Worker  rota.WorkerID
	Session rota.Session
	// Broken is no sign of life but of its end: the number of the connection whose stream
	// ended at the node, 0 for a sign of life (SPEC §16.7).
	Broken uint64
}

// BeatAnswer reports the clock after the first entry stamped after the beats
// reached the leader. Refused lists, by position, sessions no longer live.
type BeatAnswer struct {
	Clock   rota.Clock
	Refused []int32
}

// WorkerLink is what a worker says of its connection to a node (SPEC §16.7).
type WorkerLink struct {
	// Connection numbers it, larger than those before; 0 where the worker numbers none.
	Connection uint64
	// Grace says that the worker believes in a lease no longer than its grace after a beat
	// that was heard.
	Grace bool
	// OldSecret, with a takeover, is that of the process that has the id; nil for none.
	OldSecret []byte
}

// LeaseCommand is one verb on one lease by its worker. Every one is idempotent
// (SPEC §2.7): ack, complete, fail and decline by lease id, renew by ordinal.
type LeaseCommand struct {
	Verb  rota.LeaseVerb
	Lease rota.LeaseID
	// Job is the lease's job: what comes late for an ended lease is answered by it.
	Job     rota.JobID
	Worker  rota.WorkerID
	Session rota.Session
	// Ordinal of a renewal, from 1.
	Ordinal int32
	// Output and OutputDigest (32 bytes, SHA-256 of the output unless the
	// handler gives another) of a completion.
	Output       []byte
	OutputDigest []byte
	// Meta is what a completion says beside its output, within the bounds of labels.
	Meta map[string]string
	// Error of a failure, note of a progress report.
	Text string
	// Progress 0…100.
	Progress int32
	// NoRetry of a failure makes the job DEAD at once.
	NoRetry bool
	// TimedOut of a failure says that max_runtime ended the attempt (SPEC §20.2).
	TimedOut bool
}

// LeaseAnswer is the outcome of a LeaseCommand.
type LeaseAnswer struct {
	// Err is nil, or Stale when the lease is not (or no longer) the caller's.
	Err *rota.Error
	// Deadline, on the cluster clock alone, and Renewals after a renewal or an ack.
	Deadline rota.Clock
	Renewals int32
	// JobState after the command.
	JobState rota.JobState
	// Index of the entry that decided it.
	Index rota.Index
}

// Notice is a message of a node to a connected worker. Exactly one field is set.
type Notice struct {
	// Assigned is a new lease, or one given back on reconnecting.
	Assigned *rota.Assignment
	// Ended says that a lease is over for a reason that the worker did not bring about.
	Ended *LeaseEnd
	// Revoked asks to stop and confirm by declining (SPEC §8.5).
	Revoked *LeaseEnd
	// Draining says that an operator drains the worker.
	Draining bool
}

// LeaseEnd names a lease that is over, or shall be, and why.
type LeaseEnd struct {
	Lease  rota.LeaseID
	Job    rota.JobID
	Reason rota.Reason
}
