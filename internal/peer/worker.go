package peer

import (
	"time"

	"github.com/rotasched/rota"
)

// Beat is a worker's sign of life on its way to the leader (SPEC §3.9).
type Beat struct {
	Worker  rota.WorkerID
	Session rota.Session
	// Broken is no sign of life but of its end: the number of the connection whose stream
	// ended at the node, 0 for a sign of life (SPEC §16.7).
	Broken uint64
	// Next is how long after this beat the next one comes; 0 is limits.BeatEvery (SPEC §3.9).
	Next time.Duration
}

// Beaten answers one beat.
type Beaten struct {
	// Clock is that after the first entry stamped after the beat reached the leader.
	Clock rota.Clock
	// Every is the time between two beats while the worker holds no lease; with one it beats twice as often. 0 is limits.BeatEvery.
	Every time.Duration
}

// BeatAnswer reports the clock after the first entry stamped after the beats
// reached the leader. Refused lists, by position, sessions no longer live.
type BeatAnswer struct {
	Beaten
	Refused []int32
}

// WorkerLink is what a worker says of its connection to a node (SPEC §16.7).
type WorkerLink struct {
	// Connection numbers it, larger than those before; 0 where the worker numbers none.
	Connection uint64
	// Grace says that the worker believes in a lease no longer than its grace after a beat
	// that was heard.
	Grace bool
	// Polls says that the worker has no stream and takes leases only as it offers (SPEC §13.17).
	Polls bool
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
	// Ordinal of a renewal, from 1; FinalReport of the last report of progress before a verb that ends the lease.
	Ordinal int32
	// Output and OutputDigest (32 bytes, SHA-256 of the output unless the
	// handler gives another) of a completion.
	Output       []byte
	OutputDigest []byte
	// Meta is what a completion says beside its output, within the bounds of labels.
	Meta map[string]string
	// Children are what a worker's stream carries of a completion's Growth.
	Children []byte
	// Growth is what a completion adds to its workflow; nil for nothing.
	Growth *rota.Growth
	// Error of a failure, note of a progress report.
	Text string
	// Progress 0…100.
	Progress int32
	// Fail says of a failure what becomes of the job (SPEC §20.3).
	Fail FailKind
	// After is how long the job waits after FailRetryAfter and FailSnooze.
	After time.Duration
	// Log is what the handler logged, of a verb that ends the lease: as package joblog
	// encodes it on a worker's stream, and packed from its node on (SPEC §22.2).
	Log []byte
}

// FinalReport is the ordinal of a report of progress that is the last one of its attempt.
const FinalReport = 1

// FailKind is what a failure asks for (SPEC §20.3). Its numbers are those of the wire.
type FailKind uint8

const (
	// FailRetry counts the attempt and tries again as the job's retry policy says.
	FailRetry FailKind = iota
	// FailRetryAfter counts the attempt and tries again after a time of the handler's.
	FailRetryAfter
	// FailSnooze makes the same attempt again after a time of the handler's, uncounted up
	// to limits.MaxSnoozes times.
	FailSnooze
	// FailNoRetry makes the job DEAD.
	FailNoRetry
	// FailCancel makes the job CANCELLED.
	FailCancel
	// FailTimedOut says that max_runtime ended the attempt (SPEC §20.2).
	FailTimedOut
	// FailLast bounds what a command may hold.
	FailLast = FailTimedOut
)

// Waits reports whether a failure brings the time that the job waits.
func (k FailKind) Waits() bool { return k == FailRetryAfter || k == FailSnooze }

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
