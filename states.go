package rota

import (
	"encoding/json"
	"strings"
)

// JobState is the state of a job (SPEC §1).
type JobState uint8

// The job states. JobNone means that there is no job.
const (
	JobNone JobState = iota
	JobBlocked
	JobDelayed
	JobQueued
	JobAssigned
	JobRunning
	JobCompleted
	JobDead
	JobExpired
	JobCancelled
)

var jobStateNames = []string{"NONE", "BLOCKED", "DELAYED", "QUEUED", "ASSIGNED", "RUNNING",
	"COMPLETED", "DEAD", "EXPIRED", "CANCELLED"}

// String names the state in capitals.
func (s JobState) String() string { return nameOf(jobStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s JobState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *JobState) UnmarshalText(text []byte) error {
	v, err := valueOf(jobStateNames, "job state", text)
	*s = JobState(v)
	return err
}

// Terminal reports whether the job is over; only an operator's retry leaves such a
// state (Invariant I7).
func (s JobState) Terminal() bool { return s >= JobCompleted && s <= JobCancelled }

// Leased reports whether an open lease names the job (Invariant I1).
func (s JobState) Leased() bool { return s == JobAssigned || s == JobRunning }

// jobMoves is the one table of legal moves: jobMoves[from] holds a bit for
// each state that may follow.
var jobMoves = [...]uint16{
	JobNone: bits(JobBlocked, JobDelayed, JobQueued),
	JobBlocked: bits(JobDelayed, JobQueued, JobCompleted, JobDead, // a gate's signal
		JobExpired, JobCancelled),
	JobDelayed:   bits(JobQueued, JobExpired, JobCancelled),
	JobQueued:    bits(JobAssigned, JobExpired, JobCancelled),
	JobAssigned:  bits(JobRunning, JobDelayed, JobQueued, JobCompleted, JobDead, JobExpired, JobCancelled),
	JobRunning:   bits(JobDelayed, JobQueued, JobCompleted, JobDead, JobExpired, JobCancelled),
	JobCompleted: bits(JobDelayed, JobQueued, JobDead), // a verifier's proof report (SPEC §9.5)
	JobDead:      bits(JobQueued),                      // an operator's retry
	JobExpired:   bits(JobDelayed, JobQueued),          // DELAYED until the old worker's view is over
	JobCancelled: bits(JobDelayed, JobQueued),
}

func bits(states ...JobState) (b uint16) {
	for _, s := range states {
		b |= 1 << s
	}
	return b
}

// MayBecome reports whether the move from s to next is legal.
func (s JobState) MayBecome(next JobState) bool {
	return int(s) < len(jobMoves) && jobMoves[s]&(1<<next) != 0
}

// LeaseState is the state of a lease (SPEC §1).
type LeaseState uint8

// The lease states; those from LeaseCompleted on are ended.
const (
	LeaseNone LeaseState = iota
	LeaseActive
	LeaseRenewed
	LeaseCompleted
	LeaseFailed
	LeaseDeclined
	LeaseExpired
	LeaseCancelled
)

var leaseStateNames = []string{"NONE", "ACTIVE", "RENEWED", "COMPLETED", "FAILED", "DECLINED", "EXPIRED", "CANCELLED"}

// String names the state in capitals.
func (s LeaseState) String() string { return nameOf(leaseStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s LeaseState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *LeaseState) UnmarshalText(text []byte) error {
	v, err := valueOf(leaseStateNames, "lease state", text)
	*s = LeaseState(v)
	return err
}

// WorkerStatus is the status of a worker, which determines whether it gets jobs (SPEC §6.3).
type WorkerStatus uint8

// The worker statuses.
const (
	WorkerNone WorkerStatus = iota
	WorkerActive
	WorkerDraining
	WorkerSuspended
	WorkerJailed
	WorkerRetired
	WorkerUnreachable
)

var workerStatusNames = []string{"NONE", "ACTIVE", "DRAINING", "SUSPENDED", "JAILED", "RETIRED", "UNREACHABLE"}

// String names the status in capitals.
func (s WorkerStatus) String() string { return nameOf(workerStatusNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s WorkerStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *WorkerStatus) UnmarshalText(text []byte) error {
	v, err := valueOf(workerStatusNames, "worker status", text)
	*s = WorkerStatus(v)
	return err
}

// ClusterMode determines which requests the cluster admits (SPEC §4.3).
type ClusterMode uint8

// The modes; the zero value is NORMAL.
const (
	ModeNormal ClusterMode = iota
	ModeDegraded
	ModeReadOnly
	ModeDraining
)

var modeNames = []string{"NORMAL", "DEGRADED", "READ_ONLY", "DRAINING"}

// String names the mode in capitals.
func (m ClusterMode) String() string { return nameOf(modeNames, int(m)) }

// MarshalText implements encoding.TextMarshaler.
func (m ClusterMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *ClusterMode) UnmarshalText(text []byte) error {
	v, err := valueOf(modeNames, "mode", text)
	*m = ClusterMode(v)
	return err
}

// ServiceTier is a tenant's tier, one term of the market ranking (SPEC §5.1).
type ServiceTier uint8

// The service tiers.
const (
	TierFree ServiceTier = iota
	TierPro
	TierPremium
)

var serviceTierNames = []string{"FREE", "PRO", "PREMIUM"}

// String names the tier in capitals.
func (t ServiceTier) String() string { return nameOf(serviceTierNames, int(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t ServiceTier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *ServiceTier) UnmarshalText(text []byte) error {
	v, err := valueOf(serviceTierNames, "service tier", text)
	*t = ServiceTier(v)
	return err
}

// Ranking orders a queue's pending jobs (SPEC §5).
type Ranking uint8

// The rankings.
const (
	RankAging Ranking = iota
	RankMarket
	RankAdaptive
	RankFIFO
	RankShortest
	RankSmallest
)

var rankingNames = []string{"aging", "market", "adaptive", "fifo", "shortest", "smallest"}

// Estimates reports whether ranking keys depend on how long jobs should take.
func (r Ranking) Estimates() bool { return r == RankShortest || r == RankSmallest }

// String names the ranking as SPEC §5 does.
func (r Ranking) String() string { return nameOf(rankingNames, int(r)) }

// Strategy orders the workers that a job may go to (SPEC §7.6).
type Strategy uint8

// The strategies.
const (
	StrategyLeastLoaded Strategy = iota
	StrategyShuffle
	StrategyRoundRobin
	StrategyRandom
	StrategyAffinity
)

var strategyNames = []string{"least_loaded", "shuffle", "round_robin", "random", "affinity"}

// String names the strategy as SPEC §7.6 does.
func (s Strategy) String() string { return nameOf(strategyNames, int(s)) }

// Reason is why an attempt, a lease or a job ended. Events, tombstones and `job show` carry its text.
type Reason uint8

// The reasons. Those that use up an attempt are Counted.
const (
	ReasonNone Reason = iota
	ReasonAckTimeout
	ReasonLeaseExpired
	ReasonProofInvalid
	ReasonProviderFail
	ReasonDeclined
	ReasonCancelledByUser
	ReasonWorkerSuspended
	ReasonWorkerJailed
	ReasonWorkerRetired
	ReasonPreempted
	ReasonQuotaCut
	ReasonTakenOver
	ReasonTTLAbsolute
	ReasonTTLRelative
	ReasonAttemptsUsedUp
	ReasonDone
	ReasonRestored
	ReasonProofRejected
	ReasonParentFailed
	ReasonWorkflowFailed
	ReasonWorkflowCancelled
	ReasonTimedOut
	ReasonAccessEnded
	ReasonSnoozed
	ReasonCancelledByHandler
	ReasonGateRefused
	ReasonGateTimeout
	ReasonScheduleCancelled
	ReasonStartBy
	ReasonNotNeeded
	ReasonWorkerLost
	ReasonInterrupted
	ReasonInterruptedCounted
	ReasonBudgetSpent
)

// ReasonLast is the last value that a record may hold.
const ReasonLast = ReasonBudgetSpent

var reasonNames = []string{"NONE", "ACK_TIMEOUT", "LEASE_EXPIRED", "PROOF_INVALID", "PROVIDER_FAIL", "DECLINED",
	"CANCELLED", "WORKER_SUSPENDED", "WORKER_JAILED", "WORKER_RETIRED", "PREEMPTED", "QUOTA_CUT", "TAKEN_OVER",
	"TTL_ABSOLUTE", "TTL_RELATIVE", "ATTEMPTS_USED_UP", "DONE", "RESTORED", "PROOF_REJECTED",
	"PARENT_FAILED", "WORKFLOW_FAILED", "WORKFLOW_CANCELLED", "TIMED_OUT", "ACCESS_ENDED",
	"SNOOZED", "CANCELLED_BY_HANDLER", "GATE_REFUSED", "GATE_TIMEOUT", "SCHEDULE_CANCELLED", "START_BY", "NOT_NEEDED",
	"WORKER_LOST", "INTERRUPTED", "INTERRUPTED_COUNTED", "BUDGET_SPENT"}

// String names the reason in capitals.
func (r Reason) String() string { return nameOf(reasonNames, int(r)) }

// MarshalText implements encoding.TextMarshaler; no reason is "".
func (r Reason) MarshalText() ([]byte, error) {
	if r == ReasonNone {
		return nil, nil
	}
	return []byte(r.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Reason) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = ReasonNone
		return nil
	}
	v, err := valueOf(reasonNames, "reason", text)
	*r = Reason(v)
	return err
}

// Reasons is a set of reasons.
type Reasons uint64

// Failures are the reasons for which a key's breaker counts an attempt as a failure by default: the handler failed, or
// it took too long. The other reasons that it may count are those of workers.
const (
	Failures  Reasons = 1<<ReasonProviderFail | 1<<ReasonTimedOut | 1<<ReasonLeaseExpired
	breakable         = Failures | 1<<ReasonAckTimeout | 1<<ReasonProofInvalid | 1<<ReasonWorkerLost |
		1<<ReasonDeclined | 1<<ReasonSnoozed
)

// Has reports whether a reason is in the set.
func (s Reasons) Has(r Reason) bool { return s>>r&1 != 0 }

// Names returns the reasons' names in their order.
func (s Reasons) Names() []string {
	var names []string
	for r := ReasonNone; r <= ReasonLast; r++ {
		if s.Has(r) {
			names = append(names, r.String())
		}
	}
	return names
}

// String shows the names, separated by commas.
func (s Reasons) String() string { return strings.Join(s.Names(), ",") }

// ParseReasons is the inverse of Names; case does not matter.
func ParseReasons(names []string) (set Reasons, err error) {
	for _, name := range names {
		var r Reason
		if err := r.UnmarshalText([]byte(strings.ToUpper(name))); err != nil {
			return 0, err
		}
		set |= 1 << r
	}
	return set, nil
}

// MarshalJSON implements json.Marshaler: a list of names.
func (s Reasons) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Reasons) UnmarshalJSON(text []byte) error {
	var names []string
	err := json.Unmarshal(text, &names)
	if err == nil {
		*s, err = ParseReasons(names)
	}
	return err
}

// EndsJob reports whether the reason ends a job from outside, whatever state it is in: a lease that is revoked for it
// outlives the job.
func (r Reason) EndsJob() bool {
	switch r {
	case ReasonCancelledByUser, ReasonTTLAbsolute, ReasonTTLRelative, ReasonParentFailed, ReasonWorkflowFailed,
		ReasonWorkflowCancelled,
		ReasonScheduleCancelled:
		return true
	}
	return false
}

// Counted reports whether the reason uses up an attempt (SPEC §9.1).
func (r Reason) Counted() bool {
	return r >= ReasonAckTimeout && r <= ReasonProviderFail || r == ReasonTimedOut || r == ReasonInterruptedCounted
}

// Reasoning is the rule by which a worker was chosen (SPEC §7.7). N and Of are
// the two numbers of the rule: LeastLoaded{N: queue depth}, DataLocality{N: data
// keys held}, RoundRobin{N: cursor}, ResourceFit{N: available cpu, Of: required
// cpu} in millicores, SeededShuffle{N: position, Of: how many},
// Backfilled{N: until when room is kept for the job that it overtook, a date, Of: the estimate that it went by, in ms}.
type Reasoning struct {
	Rule ReasoningRule
	N    int64
	Of   int64
	// worker is the chosen worker, for the JSON of the enclosing object.
	worker WorkerID
}

// ReasoningRule names the rule of a Reasoning.
type ReasoningRule uint8

// The rules of SPEC §7.7, and TurnOfTheOldest of §7.10.
const (
	ReasoningNone ReasoningRule = iota
	ReasoningOnlyWorkerAvailable
	ReasoningByLeastLoaded
	ReasoningByDataLocality
	ReasoningByPreviouslyExecuted
	ReasoningBySameZone
	ReasoningByRoundRobin
	ReasoningBySeededRandom
	ReasoningByResourceFit
	ReasoningBySeededShuffle
	ReasoningByTurnOfTheOldest
	ReasoningByPreemption
	ReasoningBackfilled
)

var reasoningNames = []string{"NONE", "OnlyWorkerAvailable", "LeastLoaded", "Affinity{DataLocality}",
	"Affinity{PreviouslyExecuted}", "Affinity{SameZone}", "RoundRobin", "SeededRandom", "ResourceFit",
	"SeededShuffle", "TurnOfTheOldest", "Preemption", "Backfilled"}

// String names the rule as SPEC §7.7 does.
func (r ReasoningRule) String() string { return nameOf(reasoningNames, int(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r ReasoningRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *ReasoningRule) UnmarshalText(text []byte) error {
	v, err := valueOf(reasoningNames, "reasoning", text)
	*r = ReasoningRule(v)
	return err
}
