package rest

import "github.com/rotasched/rota"

// JobIDs names jobs.
type JobIDs struct {
	// IDs are 1 to 1,000.
	IDs []rota.JobID `json:"ids"`
}

// JobRetries names jobs that are to live again.
type JobRetries struct {
	// IDs are 1 to 1,000.
	IDs []rota.JobID `json:"ids"`
	// Lives are as many as the ids, or none: the life of each that ended and is to be followed
	// by another one. -1 is the one that the job is found in.
	Lives []int32 `json:"lives,omitempty"`
}

// JobChanged is what came of a change of one of many jobs.
type JobChanged struct {
	JobOutcome
	// Error is why it was refused.
	Error *Problem `json:"error,omitempty"`
}

// JobsChanged are the outcomes of a change of many jobs, each at its job's place.
type JobsChanged struct {
	Jobs []JobChanged `json:"jobs"`
	// Refused is how many of them were refused.
	Refused int `json:"refused"`
}

// JobEnded is a line of a wait for many jobs: one that has ended, or why the wait is over before
// all have.
type JobEnded struct {
	Job   *rota.Job `json:"job,omitempty"`
	Error *Problem  `json:"error,omitempty"`
}

// ProofReport is a verifier's word that the proof of a completed job is invalid.
type ProofReport struct {
	// Lease is the one that completed the job, in hex; without it the one on record.
	Lease  rota.Hex `json:"lease,omitempty"`
	Reason string   `json:"reason"`
}

// Plans is a list of plans by id.
type Plans struct {
	Plans      []rota.Plan `json:"plans"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

// KeyRules is a list of rules by queue, name and value.
type KeyRules struct {
	Rules      []rota.KeyRule `json:"rules"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// Keys is what a key counts: the first thousand places, by queue.
type Keys struct {
	Keys []rota.KeyState `json:"keys"`
}

// KeyStates is a list of the keys that rules count, the most used first.
type KeyStates struct {
	Keys       []rota.KeyState `json:"keys"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// KeySkip lets a sequence go on.
type KeySkip struct {
	// Queue, Tenant and Key are as the key's state has them, Job is its blocker.
	Queue  string `json:"queue,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
	Job    string `json:"job"`
}
