package rest

import "github.com/rotasched/rota"

// JobIDs names jobs.
type JobIDs struct {
	// IDs are 1 to 1,000 ids.
	IDs []rota.JobID `json:"ids"`
}

// JobRetries names jobs to retry.
type JobRetries struct {
	// IDs are 1 to 1,000 ids.
	IDs []rota.JobID `json:"ids"`
	// Lives are the ended lives of the jobs, as many as the ids, or none. -1 means the job's current life.
	Lives []int32 `json:"lives,omitempty"`
}

// JobChanged is the outcome of a change of one of many jobs.
type JobChanged struct {
	JobOutcome
	// Error is why the change was refused.
	Error *Problem `json:"error,omitempty"`
}

// JobsChanged are the outcomes of a change of many jobs, each at the position of its job.
type JobsChanged struct {
	Jobs []JobChanged `json:"jobs"`
	// Refused is the number of refused jobs.
	Refused int `json:"refused"`
}

// JobEnded is a line of a wait for many jobs: an ended job, or why the wait is over before.
type JobEnded struct {
	Job   *rota.Job `json:"job,omitempty"`
	Error *Problem  `json:"error,omitempty"`
}

// ProofReport is a verifier's report that the proof of a completed job is invalid.
type ProofReport struct {
	// Lease is the lease that completed the job, in hex; without it, the recorded one.
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

// Keys has the counts of a key: the first thousand entries, by queue.
type Keys struct {
	Keys []rota.KeyState `json:"keys"`
}

// KeyStates is a list of the keys that rules count, most used first.
type KeyStates struct {
	Keys       []rota.KeyState `json:"keys"`
	NextCursor string          `json:"next_cursor,omitempty"`
}

// KeyPauseSetting holds the jobs of a key.
type KeyPauseSetting struct {
	// Queue and Tenant are those of its rule: no tenant if its scope is the cluster.
	Queue  string `json:"queue,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
	// UntilMs is the date, in Unix milliseconds, when the pause ends; the default is when the key is resumed.
	UntilMs int64  `json:"until_ms,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// KeyResumption ends the pause of a key, and closes its breaker.
type KeyResumption struct {
	// Queue and Tenant are those of its rule: no tenant if its scope is the cluster.
	Queue  string `json:"queue,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
}

// Budgets is a list of budgets by name.
type Budgets struct {
	Budgets    []rota.BudgetState `json:"budgets"`
	NextCursor string             `json:"next_cursor,omitempty"`
}

// BudgetAccounts is a list of the accounts of a budget, by owner.
type BudgetAccounts struct {
	Accounts   []rota.BudgetAccount `json:"accounts"`
	NextCursor string               `json:"next_cursor,omitempty"`
}

// BudgetGrant adds to the limit of an account for the present period.
type BudgetGrant struct {
	// Of is the owner of the account, if the budget has several: a tenant, key, workflow or job.
	Of     string    `json:"of,omitempty"`
	Amount rota.Cost `json:"amount"`
	Reason string    `json:"reason,omitempty"`
	// ID names the grant: a repetition changes nothing.
	ID string `json:"id"`
}

// BudgetReset forgets the spent and granted amounts in the present period.
type BudgetReset struct {
	// Of is the owner of the account, if the budget has several: a tenant, key, workflow or job. All is all of them.
	Of     string `json:"of,omitempty"`
	All    bool   `json:"all,omitempty"`
	Reason string `json:"reason,omitempty"`
	// ID names the reset: a repetition changes nothing.
	ID string `json:"id"`
}

// KeySkip continues a blocked sequence.
type KeySkip struct {
	// Queue, Tenant and Key are those of the key's state, Job is its blocker.
	Queue  string `json:"queue,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
	Job    string `json:"job"`
}
