package peer

import "github.com/rotasched/rota"

// Round is a round as the log has it, and as it is computed again.
type Round struct {
	Epoch  uint64
	Height rota.Index
	Queue  rota.QueueName
	// Index is that of the entry which has it.
	Index rota.Index
	Seed  rota.Hex
	// Proved says that both are the same, to the bit.
	Proved bool
	// Logged are the pairs as the log has them, Computed as they are computed again; the same where
	// it is proved.
	Logged, Computed []Pair
	// Candidates are the jobs that were drawn, those without a worker among them. Workers are those
	// with room as it began, in the order of the round, a hundred of Room at most.
	Candidates []Candidate
	Workers    []rota.WorkerID
	Room       int
	// LoggedText and ComputedText show both where they differ.
	LoggedText, ComputedText string
}

// Pair is a job and the worker that it got.
type Pair struct {
	Job         rota.JobID
	Worker      rota.WorkerID
	Score       rota.Score
	Rank        int32
	Reasoning   rota.Reasoning
	Interleaved bool
}

// Candidate is a job that a round drew.
type Candidate struct {
	Job   rota.JobID
	Score rota.Score
	Rank  int32
}
