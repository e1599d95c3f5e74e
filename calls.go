package rota

import "time"

// Requests to a node and its answers, in types that belong neither to the protocol nor to the state machine.

// ReadAt describes the state that a read used.
type ReadAt struct {
	Index Index `json:"index"`
	// Age is the time since this node last applied an entry; negative if it never has.
	Age time.Duration `json:"age_ms"`
}

// Submitted is the outcome for one submitted job.
type Submitted struct {
	ID    JobID    `json:"id"`
	State JobState `json:"state"`
	// Existed reports that the id was already known: the first submission remains in force.
	Existed bool `json:"existed,omitempty"`
	// Index is the index of the entry that decided it.
	Index Index `json:"index"`
	Err   error `json:"-"`
	// Throttle asks for fewer submissions: the queue is more than half full, or its workers more than half busy (SPEC
	// §4.6).
	Throttle bool `json:"throttle,omitempty"`
	// Holder is the job into which the submission was merged, if the caller may read it; State is that job's (SPEC
	// §18.2).
	Holder JobID `json:"holder,omitempty"`
	// Merge is what happened to the payload of a merged submission; MergeNone if it was not merged.
	Merge Merge `json:"merge,omitempty"`
}

// AnyLife means a job's current life.
const AnyLife int32 = -1

// JobRetry names a job and the ended life after which a new one begins (SPEC §16.6). The life identifies repeated
// calls.
type JobRetry struct {
	ID   JobID
	Life int32
}

// JobOutcome is the outcome of a cancel or a retry.
type JobOutcome struct {
	ID    JobID
	State JobState
	Index Index
	Err   error
}

// Queue is a queue with its policy and counters.
type Queue struct {
	Name   QueueName   `json:"name"`
	Policy QueuePolicy `json:"policy"`
	// ETag is the version of its settings. Pass it to client.IfMatch, or in the header If-Match, to
	// change that version only.
	ETag string `json:"etag,omitempty"`
	// Pending is Blocked + Delayed + Queued, which queue_cap limits.
	Pending  int64 `json:"pending"`
	Blocked  int64 `json:"blocked"`
	Delayed  int64 `json:"delayed"`
	Queued   int64 `json:"queued"`
	Assigned int64 `json:"assigned"`
	Running  int64 `json:"running"`
	// Totals since the cluster began.
	SubmittedTotal uint64 `json:"submitted_total"`
	AssignedTotal  uint64 `json:"assigned_total"`
	CompletedTotal uint64 `json:"completed_total"`
	DeadTotal      uint64 `json:"dead_total"`
	ExpiredTotal   uint64 `json:"expired_total"`
	CancelledTotal uint64 `json:"cancelled_total"`
	// Staged counts those that are still in memory, not in the archive, of the node that answers.
	Staged int64 `json:"staged"`
	// Lanes counts the lanes with pending jobs; Workers counts the workers that serve the queue.
	Lanes   int64 `json:"lanes"`
	Workers int64 `json:"workers"`
	// OldestWait is how long the oldest QUEUED job has waited.
	OldestWait time.Duration `json:"oldest_wait_ms"`
	// UsagePermille is pending ÷ queue_cap; BacklogUsagePermille QUEUED jobs and open leases ÷ (active workers ×
	// max_queue_size), 0 if there is no limit (SPEC §4.6).
	UsagePermille        int64 `json:"usage_permille"`
	BacklogUsagePermille int64 `json:"backlog_usage_permille"`
	// LeaseUsagePermille is open leases ÷ the capacity of its workers.
	LeaseUsagePermille int64 `json:"lease_usage_permille"`
	// Backpressure is the effect of the first two on submissions with a priority other than 0: NONE, THROTTLE or
	// REFUSE.
	Backpressure string `json:"backpressure"`
	// Bytes is the size that bytes_max limits (SPEC §4.14).
	Bytes int64 `json:"bytes"`
	// Throttled counts the lanes that a limit excludes from the draw.
	Throttled int64 `json:"throttled_lanes"`
	// Tiers counts QUEUED jobs by tier, from the critical one; in an adaptive queue, by their current tier.
	Tiers []int64 `json:"tiers"`
	// Domains are those with outcomes in their window; set by `queue show` only.
	Domains []Domain `json:"domains,omitempty"`
	// Types are the job types with statistics; set by `queue show` of an adaptive queue only.
	Types []TypeStats `json:"types,omitempty"`
	// Changes lists what the call would change; only in the answer to a dry run.
	Changes []SettingChange `json:"changes,omitempty"`
}

// SettingChange is a setting that would change. From is "" if the key is not set yet; To is "" if it would be removed.
type SettingChange struct {
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
}

// settingChanges lists the keys whose values differ between two lists of the same settings.
func settingChanges(from, to []Setting) (changes []SettingChange) {
	for i := range from {
		if from[i].Value != to[i].Value {
			changes = append(changes, SettingChange{from[i].Key, from[i].Value, to[i].Value})
		}
	}
	return changes
}

// Differences lists the keys whose values differ in another policy, in canonical order.
func (p *QueuePolicy) Differences(to *QueuePolicy) []SettingChange {
	return settingChanges(p.Settings(), to.Settings())
}

// Differences lists the keys whose values differ in other limits.
func (l TenantLimits) Differences(to TenantLimits) []SettingChange {
	return settingChanges(l.Settings(), to.Settings())
}

// The values of a queue's backpressure: none, a hint to slow down, a refusal (SPEC §4.6).
const (
	BackpressureNone     = "NONE"
	BackpressureThrottle = "THROTTLE"
	BackpressureRefuse   = "REFUSE"
)

// Domain is a failure domain of a queue (SPEC §4.8).
type Domain struct {
	Queue    QueueName `json:"queue"`
	Name     string    `json:"name"`
	Isolated bool      `json:"isolated"`
	// Since is when the domain was last isolated or recovered.
	Since Moment `json:"since"`
	// Outcomes counts the outcomes in the window, and how many of them failed.
	Outcomes int64 `json:"outcomes"`
	Failures int64 `json:"failures"`
}

// TypeStats are the statistics of a job type, used by the adaptive ranking (SPEC §5.3).
type TypeStats struct {
	Type    JobType `json:"type"`
	Success int64   `json:"success"`
	Fail    int64   `json:"fail"`
	// EMA is the moving average of the type's durations.
	EMA time.Duration `json:"ema_us"`
	// Expected is how long a job of the type should take; 0 if not set.
	Expected time.Duration `json:"expected_ms"`
	// Weight is W of SPEC §5.3, in readable form.
	Weight float64 `json:"weight"`
}

// Tenant is a tenant with its service tier, limits and current use.
type Tenant struct {
	ID TenantID `json:"id"`
	TenantLimits
	// ETag is the version of its settings. Pass it to client.IfMatch, or in the header If-Match, to
	// change that version only.
	ETag string `json:"etag,omitempty"`
	// Open is the number of open leases over all queues.
	Open int64 `json:"open_leases"`
	// Throttled reports that its lanes wait because it reached max_concurrent.
	Throttled bool `json:"throttled"`
	// Known reports that the tenant has settings; other tenants have the defaults.
	Known bool `json:"known"`
	// Bytes is the size that bytes_max limits (SPEC §4.14).
	Bytes int64 `json:"bytes"`
	// RateLeft is how many jobs the tenant may submit now; also 0 if there is no limit.
	RateLeft int64 `json:"rate_left,omitempty"`
	// Changes lists what the call would change; only in the answer to a dry run.
	Changes []SettingChange `json:"changes,omitempty"`
}

// TenantLimits are the limits that an operator sets for a tenant.
type TenantLimits struct {
	Tier ServiceTier `json:"tier"`
	// Weight is the weight of its fair share, at least 1.
	Weight int64 `json:"weight"`
	// MaxConcurrent is the maximum number of open leases over all queues; 0 means no limit (SPEC §4.9).
	MaxConcurrent int64 `json:"max_concurrent"`
	// RateLimitRPS is the rate limit over all queues; 0 means no limit, −1 means each queue's rate_limit_rps (SPEC
	// §4.5).
	RateLimitRPS int64 `json:"rate_limit_rps"`
	// PenaltyMs is the minimum time that its lanes stay throttled (SPEC §4.9).
	PenaltyMs int64 `json:"penalty_ms"`
	// BytesMax is the maximum number of bytes of its jobs and workflows; 0 means no limit (SPEC §4.14).
	BytesMax int64 `json:"bytes_max"`
}

// The ranges of a tenant's limits.
const (
	maxTenantWeight    = 1_000_000
	maxTenantLeases    = 100_000_000
	maxTenantRPS       = 10_000_000
	maxTenantPenaltyMs = 3_600_000
)

// DefaultTenantLimits returns the limits of a tenant without settings.
func DefaultTenantLimits() TenantLimits {
	return TenantLimits{Weight: 1, RateLimitRPS: -1}
}

// Check rejects limits that are out of range; the error names field, value and range.
func (l TenantLimits) Check() error {
	if l.Tier > TierPremium {
		return NotOneOf("tier", l.Tier.String(), ServiceTierNames()...)
	}
	for _, n := range []struct {
		field           string
		value, min, max int64
	}{
		{"weight", l.Weight, 1, maxTenantWeight},
		{"max_concurrent", l.MaxConcurrent, 0, maxTenantLeases},
		{"rate_limit_rps", l.RateLimitRPS, -1, maxTenantRPS},
		{"penalty_ms", l.PenaltyMs, 0, maxTenantPenaltyMs},
		{"bytes_max", l.BytesMax, 0, MaxStateBytes},
	} {
		if n.value < n.min || n.value > n.max {
			return OutOfRange(n.field, n.value, n.min, n.max)
		}
	}
	return nil
}

// ModeStatus is the cluster's mode with its reason (SPEC §4.3).
type ModeStatus struct {
	Mode   ClusterMode `json:"mode"`
	Reason string      `json:"reason"`
	Since  Moment      `json:"since"`
	// Auto reports that a leader set the mode; Holds reports that jobs of priority > 5 are held (SPEC §4.7).
	Auto  bool `json:"auto"`
	Holds bool `json:"holds"`
	// Drained reports that DRAINING has completed all work.
	Drained bool  `json:"drained"`
	Index   Index `json:"index"`
}

// ProofReport is a verifier's report that a completed job's proof is invalid (SPEC §9.5).
type ProofReport struct {
	Job JobID
	// Lease is the lease that completed the job; the zero id means the recorded one.
	Lease  LeaseID
	Reason string
}

// Why is one reason why a pending job does not run (SPEC §6.1).
type Why struct {
	Reason string `json:"reason"`
	// Workers counts the workers that fail this rule; 0 for a reason of the job.
	Workers int64 `json:"workers"`
	// WorkerIDs are the first of these workers by id, at most 100.
	WorkerIDs []WorkerID `json:"worker_ids,omitempty"`
	Detail    string     `json:"detail,omitempty"`
}

// Explanation is the answer of `job why`: all reasons for a pending job, or the whole decision for a placed one.
type Explanation struct {
	Job   JobID    `json:"job"`
	State JobState `json:"state"`
	// Index, Clock and Date are those of the state that was examined.
	Index   Index `json:"index"`
	Clock   Clock `json:"clock_ms"`
	Date    Date  `json:"date_ms"`
	Reasons []Why `json:"reasons,omitempty"`
	// UniqueHolder is the holder of its unique key.
	UniqueHolder JobID `json:"unique_holder,omitempty"`
	// Rank is the job's position in its queue's order, from 0, among jobs that the caller may read. Before counts the
	// QUEUED jobs ahead of it.
	Rank   int64 `json:"rank"`
	Before int64 `json:"before"`
	// Score is the number that the ranking calculates for the job at Clock; nil unless the job is QUEUED and the caller
	// may read all of its queue.
	Score     *Score           `json:"score,omitempty"`
	WouldRun  []string         `json:"would_run_if,omitempty"`
	Decision  *PlacedDecision  `json:"decision,omitempty"`
	Decisions []PlacedDecision `json:"decisions,omitempty"`
}

// PlacedDecision is the decision that placed a job's attempt on its worker.
type PlacedDecision struct {
	Decision
	Worker  WorkerID `json:"worker"`
	Attempt int32    `json:"attempt"`
	// Others are the workers that were considered and not chosen, at most 100, each with a reason. If the past state is
	// no longer kept, Others is nil and Note says so.
	Others []OtherWorker `json:"others"`
	Note   string        `json:"note,omitempty"`
}

// OtherWorker is a worker that did not get the job.
type OtherWorker struct {
	Worker WorkerID `json:"worker"`
	Reason string   `json:"reason"`
}

// AuditReport is the answer of `operator audit` (SPEC §2.4).
type AuditReport struct {
	From       Index  `json:"from"`
	To         Index  `json:"to"`
	Entries    uint64 `json:"entries"`
	Operations uint64 `json:"operations"`
	Rounds     uint64 `json:"rounds"`
	Proved     uint64 `json:"proved"`
	// Fires counts the decisions about dates of schedules that the leader of the time proposed. FiresProved of them
	// were computed again with the same time zones. FiresRefused of them changed nothing, because their schedule had
	// changed since or their dates were already decided.
	Fires        uint64           `json:"fires"`
	FiresProved  uint64           `json:"fires_proved"`
	FiresRefused uint64           `json:"fires_refused"`
	Difference   *AuditDifference `json:"first_difference"`
}

// AuditDifference is a logged round that differs from the one computed again from the state at its height, or a Fire
// that differs from its schedule.
type AuditDifference struct {
	Index  Index     `json:"index"`
	Epoch  uint64    `json:"epoch"`
	Height Index     `json:"height"`
	Queue  QueueName `json:"queue"`
	Logged string    `json:"logged"`
	Proved string    `json:"proved"`
}

// NodeStatus is one node as `cluster status` shows it.
type NodeStatus struct {
	ID      NodeID `json:"id"`
	API     string `json:"api"`
	Raft    string `json:"raft"`
	State   string `json:"state"` // LEADER, FOLLOWER, CANDIDATE, UNREACHABLE, STARTING, REBUILDING, STALLED
	Voter   bool   `json:"voter"`
	Version string `json:"version"`
	// AppliedIndex and Digest are from the same moment on that node.
	AppliedIndex Index  `json:"applied_index"`
	Digest       Digest `json:"digest"`
	Healthy      bool   `json:"healthy"`
	// Problems are the node's problems, each with what to do.
	Problems []string `json:"problems"`
	// RulesVersion is the newest version of the rules that its binary supports; 0 without an answer (SPEC §2.6).
	RulesVersion uint32 `json:"rules_version"`
	// NonVoter reports that the node was started with --non-voter: it never gets a vote.
	NonVoter bool `json:"non_voter"`
	// DiskFree and DiskTotal are those of the disk of its data directory; 0 if unknown.
	DiskFree  int64 `json:"disk_free_bytes"`
	DiskTotal int64 `json:"disk_bytes"`
	// WallSkew is how far its wall clock is ahead of the median of the voters.
	WallSkew time.Duration `json:"wall_skew_ms"`
	// CertificateEnds is when the node's certificate expires; 0 if it has none.
	CertificateEnds Date `json:"certificate_ends_ms"`
	// Snapshot is its newest snapshot, nil if there is none. Archive describes its archive of ended jobs. Both are nil
	// for a node that does not report them.
	Snapshot *NodeSnapshot `json:"snapshot,omitempty"`
	Archive  *NodeArchive  `json:"archive,omitempty"`
	NodeHealth
}

// NodeSnapshot is the newest snapshot on a node.
type NodeSnapshot struct {
	Index Index `json:"index"`
	// Date is when it was started, by the node's wall clock.
	Date  Date  `json:"date_ms"`
	Bytes int64 `json:"bytes"`
}

// NodeArchive describes the archive of ended jobs on a node.
type NodeArchive struct {
	// Records is the number of records, Bytes their size. Oldest is when the job of the oldest record ended; 0 if there
	// is none.
	Records int64 `json:"records"`
	Oldest  Date  `json:"oldest_ms"`
	Bytes   int64 `json:"bytes"`
	// Lag is the age of the oldest of the Staged records, which are in memory and not yet on disk.
	Lag    time.Duration `json:"lag_ms"`
	Staged int64         `json:"staged"`
	// Lacking counts the records to fetch from other nodes, Lost those that no node has.
	Lacking int64 `json:"lacking"`
	Lost    int64 `json:"lost"`
}

// NodeHealth is the health of a node according to the leader's own calls, by the leader's wall clock; 0 if unknown.
type NodeHealth struct {
	// HealthySince is since when the node, voter or not, has answered and followed the log, LastContact when it last
	// answered. Both start with the leadership.
	HealthySince Date `json:"healthy_since_ms"`
	LastContact  Date `json:"last_contact_ms"`
}

// Autopilot is the leader's assessment of the voters (SPEC §13.10).
type Autopilot struct {
	On           bool  `json:"on"`
	VotersWanted int64 `json:"voters_wanted"`
	// HealthyVoters counts the voters that were healthy for a minute; 0 if no leader answers.
	HealthyVoters int64 `json:"healthy_voters"`
	// Text is what the leader will do about voters that do not answer, or why it does nothing; empty without a problem.
	Text string `json:"text,omitempty"`
}

// ClusterStatus is the whole cluster as one node sees it.
type ClusterStatus struct {
	ClusterID    ClusterID   `json:"cluster_id"`
	Leader       NodeID      `json:"leader"`
	Term         uint64      `json:"term"`
	AppliedIndex Index       `json:"applied_index"`
	Clock        Clock       `json:"clock_ms"`
	Date         Date        `json:"date_ms"`
	Mode         ClusterMode `json:"mode"`
	// ModeReason is the reason for the mode. Drained reports whether DRAINING has completed all work.
	ModeReason string    `json:"mode_reason,omitempty"`
	Drained    bool      `json:"drained,omitempty"`
	Jobs       JobCounts `json:"jobs"`
	// Workers are registered and not RETIRED.
	Workers int64        `json:"workers"`
	Nodes   []NodeStatus `json:"nodes"`
	// RulesVersion is the version of the rules in force.
	RulesVersion uint32 `json:"rules_version"`
	// StateBytes is the size that StateBytesMax limits (SPEC §4.14).
	StateBytes    int64 `json:"state_bytes"`
	StateBytesMax int64 `json:"state_bytes_max"`
	// Autopilot is what the leader does about dead voters.
	Autopilot Autopilot `json:"autopilot"`
	// Backup is the last backup that a leader stored; nil if there is none.
	Backup *StoredBackup `json:"backup,omitempty"`
	// TZData is the release of the time zone database used to calculate dates. Its index is 0 if it is the release in
	// the binary of the node that answers.
	TZData *TZData `json:"tzdata,omitempty"`
	// ETag is the version of the cluster's own settings.
	ETag string `json:"etag,omitempty"`
}

// StoredBackup is a backup that a leader stored, as the state records it.
type StoredBackup struct {
	// Index is that of the state in it; Date is when the cluster recorded it.
	Index Index `json:"index"`
	Date  Date  `json:"date_ms"`
	// Name is the file or object, SHA256 the hash and Bytes the number of its stored bytes.
	Name   string `json:"name"`
	SHA256 Hex    `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// JobCounts counts jobs by state; terminal ones since the cluster began.
type JobCounts struct {
	Blocked   int64 `json:"blocked"`
	Delayed   int64 `json:"delayed"`
	Queued    int64 `json:"queued"`
	Assigned  int64 `json:"assigned"`
	Running   int64 `json:"running"`
	Completed int64 `json:"completed"`
	Dead      int64 `json:"dead"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
}

// NodeVerdict is the result of one node in `operator verify`.
type NodeVerdict struct {
	ID         NodeID   `json:"id"`
	Index      Index    `json:"index"`
	Digest     Digest   `json:"digest"`
	Violations []string `json:"violations"`
	// Error is why the node did not answer; such a node counts as not equal.
	Error string `json:"error,omitempty"`
}

// Verdict is the answer of `operator verify`: every node's invariants, and its digest at one index.
type Verdict struct {
	Index Index         `json:"index"`
	Nodes []NodeVerdict `json:"nodes"`
	Equal bool          `json:"equal"`
}

// RaftPeer is one server of the Raft configuration.
type RaftPeer struct {
	ID      NodeID `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter"`
	Leader  bool   `json:"leader"`
	NodeHealth
}

// SnapshotInfo describes a snapshot or backup file.
type SnapshotInfo struct {
	ClusterID    ClusterID `json:"cluster_id"`
	Incarnation  uint64    `json:"incarnation"`
	Index        Index     `json:"index"`
	Term         uint64    `json:"term"`
	Clock        Clock     `json:"clock_ms"`
	Date         Date      `json:"date_ms"`
	Digest       Digest    `json:"digest"`
	RulesVersion uint32    `json:"rules_version"`
	Format       uint32    `json:"format"`
	Records      uint64    `json:"records"`
	Bytes        int64     `json:"bytes"`
}
