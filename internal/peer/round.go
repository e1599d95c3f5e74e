package peer

import "github.com/rotasched/rota"

// Round is a round as logged and as recomputed.
type Round struct {
	Epoch  uint64
	Height rota.Index
	Queue  rota.QueueName
	// Index is that of the entry with the round.
	Index rota.Index
	Seed  rota.Hex
	// Proved means that both are identical, to the bit.
	Proved bool
	// Logged holds the pairs in the log, Computed the recomputed ones; they are equal if Proved.
	Logged, Computed []Pair
	// Candidates holds the jobs that were drawn, including those without a worker. Workers holds those with room when
	// it began, in the order of the round: a hundred of Room at most.
	Candidates []Candidate
	Workers    []rota.WorkerID
	Room       int
	// LoggedText and ComputedText show both if they differ.
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
