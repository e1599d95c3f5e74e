package limits

import (
	"time"

	"github.com/rotasched/rota"
)

// These are numbers and sizes.
const (
	// BackgroundPriority is the first priority whose jobs make room for critical jobs (SPEC §7.9).
	BackgroundPriority = 9
	// MaxMeasuredQueues, MaxMeasuredTypes and MaxMeasuredCosts bound the metric series of attempts, so that a scrape
	// stays below a few MiB.
	MaxMeasuredQueues = 1_000
	MaxMeasuredTypes  = 200
	MaxMeasuredCosts  = 20
	// MaxErrorBytes bounds a handler's error text: its end is kept.
	MaxErrorBytes = 4 << 10
	// MaxNoteBytes bounds a progress note; the rest is cut off.
	MaxNoteBytes = 256
	// StuckRetryAfter is the retry delay when a full queue rejects a job and nothing drains the queue: it is paused, or
	// no worker serves it. The error states what to do meanwhile.
	StuckRetryAfter = 5 * time.Second
	// MaxQueues and MaxTenants bound the cluster's tables.
	MaxQueues  = 10_000
	MaxTenants = 100_000
	// MaxRoles, MaxTokens and MaxBlocks bound the tables of rights, which every node holds
	// in memory and the edge reads at every call.
	MaxRoles  = 1_000
	MaxTokens = 100_000
	MaxBlocks = 10_000
	// MaxOwned… bound how many objects of each kind one principal may own, unless it may do everything: a tenant's
	// runaway script leaves room for others. The bounds for workers and tenants fit a large team; every queue adds to
	// the cost of each round.
	MaxOwnedQueues    = 100
	MaxOwnedTenants   = 1_000
	MaxOwnedWorkers   = 1_000
	MaxOwnedWorkflows = 1_000
	MaxOwnedTokens    = 100
	MaxOwnedSchedules = 1_000
	MaxOwnedBatches   = 1_000
	MaxOwnedWebhooks  = 20
	// MaxWebhooks bounds webhooks: a leader matches every event against each of them. MaxWebhookSees bounds the rights
	// by which a webhook selects events. MaxDeliveries and DeliveryBytes bound the number and size of the deliveries
	// that one entry makes of one webhook, so that it delays others by a few milliseconds; a single delivery may be
	// larger. MaxPendingDeliveries bounds how far a webhook runs ahead of its receiver.
	MaxWebhooks          = 100
	MaxWebhookSees       = 64
	MaxDeliveries        = 500
	DeliveryBytes        = 256 << 10
	MaxPendingDeliveries = 10_000
	// MaxBatches bounds batches; new ones replace ended ones. MaxBatchBytes bounds the callbacks stored for batches
	// that have not ended.
	MaxBatches    = 100_000
	MaxBatchBytes = 64 << 20
	// MaxSchedules and MaxScheduleBytes bound schedules, which every leader scans each second. MaxScheduleRuns bounds
	// the running and pending runs of one schedule, MaxRuns those of all. MaxDecisions bounds the decisions that a row
	// shows.
	MaxSchedules     = 10_000
	MaxScheduleBytes = 64 << 20
	MaxScheduleRuns  = 1_000
	MaxRuns          = 1_000_000
	MaxDecisions     = 10
	// MaxPlansRunning bounds the plans that a leader works on in turn. MaxPlansOfOne bounds those of one principal that
	// may not do everything, so that it cannot keep all others out. MaxPlans bounds those that are kept: the oldest
	// finished plan makes room. MaxPlanItems bounds the jobs of a step, so that one entry delays others by a few
	// milliseconds. PlanStepBytes bounds the bytes of a step unless it has one job, MaxPlanRefusals the refusals that a
	// row shows.
	MaxPlansRunning = 10
	MaxPlansOfOne   = 2
	MaxPlans        = 100
	MaxPlanItems    = 500
	PlanStepBytes   = 256 << 10
	MaxPlanRefusals = 20
	// MaxGrants bounds the grants of a role, MaxTokenRoles and MaxTokenPatterns those of a token: in the worst case a
	// call is checked against all grants of a token.
	MaxGrants        = 64
	MaxTokenRoles    = 8
	MaxTokenPatterns = 8
	// MaxTokenFile bounds the bytes of an access token file: the longest token and an end of line.
	MaxTokenFile = 128
	// MaxTokenLife bounds a token's lifetime unless it is replaced: a year, including leap days.
	MaxTokenLife = 366 * 24 * time.Hour
	// MaxSessionLife bounds a browser session's life, SessionLink that of an unopened session link. MaxSessions bounds
	// the valid sessions of a principal. MaxSessionRows bounds its known sessions, including ended ones, which are
	// remembered for SessionEnded: opening one a second time revives none.
	MaxSessionLife = 12 * time.Hour
	SessionLink    = time.Minute
	MaxSessions    = 16
	MaxSessionRows = 64
	SessionEnded   = 10 * time.Minute
	// MaxViaBytes bounds the text that records the node and interface by which an operation came.
	MaxViaBytes = rota.MaxIDBytes + 16
	// MaxIssuers bounds identity providers, MaxIssuerMaps the role mappings of each. MaxIssuerText bounds the bytes of
	// a URL, an audience, a claim and its value. MaxIssuerCA bounds those of the CA certificates for a provider,
	// MaxSubject those of a subject and of a claim that was found.
	MaxIssuers    = 100
	MaxIssuerMaps = 64
	MaxIssuerText = 200
	MaxIssuerCA   = 16 << 10
	MaxSubject    = 255
	// MaxJWT bounds an identity token's bytes. MaxJWTLife bounds how long it is valid, as it is remembered until then.
	// JWTSkew bounds how far two clocks may differ, MaxSignIn how long an access token exchanged for it is valid,
	// MaxSpent the identity tokens that are remembered.
	MaxJWT     = 16 << 10
	MaxJWTLife = 24 * time.Hour
	JWTSkew    = time.Minute
	MaxSignIn  = time.Hour
	MaxSpent   = 100_000
	// MaxWorkers bounds registered workers, including retired ones until they are forgotten.
	MaxWorkers = 100_000
	// MaxClassesPerQueue bounds distinct requirement sets per queue (SPEC §1).
	MaxClassesPerQueue = 10_000
	// MaxFiringsPerSweep bounds one sweep's work under the apply lock (SPEC §3.6).
	MaxFiringsPerSweep = 1_000
	// DrainMoves and DrainLooks bound one step of draining a queue: the jobs that it moves, and those that it examines,
	// also under the apply lock (SPEC §21.5).
	DrainMoves = 500
	DrainLooks = 50_000
	// MaxPreemptions, MaxPreemptSeen and MaxPreemptLooks bound the preemption work of one entry of rounds (SPEC §7.9):
	// the preemptions, the critical jobs examined, and the workers examined for them. The next entry continues.
	MaxPreemptions  = 64
	MaxPreemptSeen  = 1_024
	MaxPreemptLooks = 50_000
	// MaxTypes bounds the job types with statistics; further types have none.
	MaxTypes = 10_000
	// MaxEstimates bounds the tenants and types, over all queues, whose run times are learned for estimates (SPEC
	// §26.1): the one with the oldest last observation is dropped first.
	MaxEstimates = 20_000
	// MaxExpectedTypes bounds the types for which a queue's owner sets an expected time: they are stored in the queue's
	// row.
	MaxExpectedTypes = 1_000
	// MaxKeyRules bounds the rules of keys, MaxKeyCounts the keys that are counted under them (SPEC §19.5): each is a
	// row of about 200 bytes. MaxKeyStates bounds the states reported for one key.
	MaxKeyRules  = 10_000
	MaxKeyStates = 1_000
	MaxKeyCounts = 1_000_000
	// MaxKeyFailures bounds the failures that an open key names. KeyMemory is how long the outcomes of a key without jobs
	// are kept, in ms: longer than its next jobs take to come, if it has any that matter, and short enough that a million
	// keys that were used once do not stay.
	MaxKeyFailures = 5
	KeyMemory      = 3600 * 1000
	// MaxBudgets bounds the budgets, MaxBudgetAccounts the accounts that the jobs of one may open, MaxAllAccounts those of
	// all: a new period visits all of its budget, about 0.1 s. MaxBudgetsAt bounds the budgets for the same combination of
	// key, tenant and queue: each start visits them. MaxBudgetChanges bounds the grants that an account names and knows
	// again, and the resets that a budget knows again; GrantMemory is how long a new period keeps them, in ms: longer than
	// a client repeats a call.
	MaxBudgets        = 10_000
	MaxBudgetAccounts = 100_000
	MaxAllAccounts    = 1_000_000
	MaxBudgetsAt      = 8
	MaxBudgetChanges  = 16
	GrantMemory       = 3600 * 1000
	// MaxDomains bounds the failure domains with outcomes in their window, over all queues; outcomes of further domains
	// are not counted.
	MaxDomains = 10_000
	// MaxRateLimiters bounds the tenants whose rate or rolling window is measured at a time, over all queues: the
	// maximum number of tenants.
	MaxRateLimiters = MaxTenants
	// MaxTypesPerWorker bounds each of a worker's lists of types: failing, cooling, denied, executed. The oldest are
	// dropped.
	MaxTypesPerWorker = 64
	// MaxBackupNameBytes bounds the name of a backup: a cluster id and an index, with some room to spare.
	MaxBackupNameBytes = 256
	// MaxReasonBytes bounds an operator's reason for a mode or a proof report.
	MaxReasonBytes = 256
	// MaxOthers bounds the workers that an explanation lists.
	MaxOthers = 100
	// MaxDeclines is how many declines use up one attempt (SPEC §8.4).
	MaxDeclines = 20
	// IsolateAfter is how many losses of its worker make a job run alone (SPEC §9.7). One may be chance or a neighbor's
	// fault, and each further loss hits the neighbors of a job that kills its worker.
	IsolateAfter = 2
	// MaxSnoozes is how many snoozes of one attempt are free; the next one uses it up (SPEC §20.3). This ends a handler
	// that waits for something that never happens.
	MaxSnoozes = 1_000
	// MaxFailWait bounds how long a handler may delay its job's retry (SPEC §20.3).
	MaxFailWait = 30 * 24 * time.Hour
	// MaxFilterBytes, MaxFilterTerms and MaxFilterValues bound a filter of jobs: all of it is matched against up to
	// 100,000 rows for one page.
	MaxFilterBytes  = 4096
	MaxFilterTerms  = 32
	MaxFilterValues = 64
	// MaxGroups bounds the groups of jobs that one page counts, so that the answer fits a message.
	MaxGroups = 1_000
	// MaxAttemptsKept bounds the attempts that `job show` lists; the newest are kept.
	MaxAttemptsKept = 12
	// MaxLogLine bounds a line of an attempt's log. MaxLogHead and MaxLogTail bound the first and the last bytes that
	// are kept of the whole log (SPEC §22.1): enough to see how it began and ended, and less than a payload.
	MaxLogLine = 4 << 10
	MaxLogHead = 16 << 10
	MaxLogTail = 48 << 10
	// MaxLogPacked bounds such a log as stored in the log of entries: packed, it is not longer than before, except for
	// a frame.
	MaxLogPacked = MaxLogHead + MaxLogTail + 1<<10
	// MaxLogsBeat bounds the log bytes that one beat carries.
	MaxLogsBeat = 256 << 10
	// MaxLogsBytes bounds the logs of open attempts at a node (SPEC §22.2).
	MaxLogsBytes = 256 << 20
	// TombstoneCap bounds terminal jobs remembered (SPEC §9.4).
	TombstoneCap = 1_000_000
	// RecordBytesCap bounds the full records (payload, output, attempts) of terminal jobs that a node holds in memory
	// until they reach its archive (SPEC §10.5). It is reached only where the archive cannot keep up for minutes. Then
	// the oldest are dropped, counted, and fetched from another node.
	RecordBytesCap = 256 << 20
	// MaxDeletedRanges bounds the ranges of numbers of deleted jobs, about 100 MB. Jobs that ended one after another
	// form one range, and retention removes the ranges (SPEC §21.3).
	MaxDeletedRanges = 1_000_000
	// MaxUniqueKeys bounds the keys that jobs hold, about 150 MB: the same number as tombstones. MaxMerged bounds the
	// merged submissions that are remembered to answer a repeated one: clients repeat for at most 40 s, and no cluster
	// merges more in that time.
	MaxUniqueKeys = 1_000_000
	MaxMerged     = 100_000
	// MaxWorkflows, MaxVertices and MaxWorkflowsBytes bound the stored workflows: new ones replace the oldest ended
	// ones, and are rejected while all are running.
	MaxWorkflows      = 10_000
	MaxVertices       = 2_000_000
	MaxWorkflowsBytes = 1 << 30
	// MaxNodeAttempts bounds the attempts that are kept of nodes that did not COMPLETE, so that a retry of their
	// workflow can carry them over: about 60 MB. MaxNodeErrorBytes truncates their errors.
	MaxNodeAttempts   = 100_000
	MaxNodeErrorBytes = 256
	// MaxChunkNodes bounds one operation that adds nodes: its part of an entry is applied in a few milliseconds.
	MaxChunkNodes = 500
	// MaxChildrenBytes bounds the encoded size of the nodes that a completion adds to its workflow (SPEC §23.2): they
	// share one operation of an entry with an output of the maximum size.
	MaxChildrenBytes = 128 << 10
	// MaxChildrenFile bounds the file in which a command describes children, as JSON: field names, spaces and escapes
	// take several times the encoded size.
	MaxChildrenFile = 8 * MaxChildrenBytes
	// MaxFlowSteps bounds the nodes that one entry releases, skips, cancels or forgets; the next entry continues.
	MaxFlowSteps = 1_000
	// MaxFlowBytes bounds, approximately, the records of ended nodes that one entry leaves for the archive: far less
	// than the records that wait for it in memory (RecordBytesCap).
	MaxFlowBytes = 16 << 20
	// MaxWorkflowClasses bounds the distinct requirement sets of a workflow's nodes: one entry releases them all or
	// acquires them again.
	MaxWorkflowClasses = 1_000
	// MaxDataHeld bounds the data keys that a worker is known to hold; the oldest are dropped (SPEC §7.6).
	MaxDataHeld = 256
	// MaxEntryOps and MaxEntryBytes bound one log entry: hashicorp/raft suggests
	// at most 512 KiB, and followers apply an entry in one piece.
	MaxEntryOps   = 1_024
	MaxEntryBytes = 512 << 10
	// MaxBatchJobs bounds one SubmitJobs call, MaxMessageBytes one RPC message.
	MaxBatchJobs    = 1_000
	MaxMessageBytes = 1 << 20
	// MaxPage bounds one list page.
	MaxPage = 1_000
	// MaxAcquire bounds the leases that one poll asks for: they arrive in one answer.
	MaxAcquire = 100
)

// These are the durations of SPEC §3, §6 and §9 that the state machine reads, in milliseconds.
const (
	// ScheduleLate is how late a schedule's date still counts as on time: a change of leader takes a few seconds.
	// ScheduleRetry is how long after a rejection a pending run is tried again.
	ScheduleLate  rota.Date  = 10_000
	ScheduleRetry rota.Clock = 1_000
	// BatchSeals is the time without a new job after which an open batch is sealed, measured on the date. BatchRetry is
	// how long after a rejection a batch's callback is tried again.
	BatchSeals rota.Date = 24 * 3_600_000
	BatchRetry rota.Date = 1_000
	// DeliveryAttempts is how often a delivery is tried, with waits that double from DeliveryBase to DeliveryCap: over
	// three days. DeliveryRuntime bounds one try: the relay gives a receiver 15 s.
	DeliveryAttempts = 82
	DeliveryBase     = 5 * time.Second
	DeliveryCap      = time.Hour
	DeliveryRuntime  = 30 * time.Second
	// SecretOverlap is how long the previous secret still signs after a rotation.
	SecretOverlap = 24 * time.Hour
	// ClockLeapMax is how far ahead of the clock an entry may be (SPEC §3.2), except in clusters founded with
	// VirtualLeapMax.
	ClockLeapMax rota.Clock = 1_000
	// VirtualLeapMax is the largest value that a cluster may be founded with instead, for tests in virtual time that
	// simulate days.
	VirtualLeapMax rota.Clock = 600_000
	// StampLeadMax is how far ahead of the applied clock a leader stamps (SPEC §3.3).
	StampLeadMax rota.Clock = 500
	// GraceMargin is how much earlier than its lease_grace_on_disconnect a worker ends its running jobs: 2 s for its
	// processes to die, 1 s for the view (SPEC §16.7).
	GraceMargin = 3 * time.Second
	// SilenceBeyond is how long after the due time of a missing beat the leader marks a worker UNREACHABLE (SPEC
	// §3.10): three lost beats in a row are not a coincidence.
	SilenceBeyond rota.Clock = 8_000
	// WorkerForgotten is the time, on the cluster clock, after which a RETIRED or UNREACHABLE worker without leases
	// leaves the state.
	WorkerForgotten rota.Clock = 24 * 3_600_000
	// GhostForgotten is the time after which a silent worker that never had a lease leaves the state, so that
	// registering endless names cannot fill a table.
	GhostForgotten rota.Clock = 600_000
	// PenaltyForgotten is the time after which a worker leaves the state that lost a part of its stake, or left while
	// it was SUSPENDED: otherwise it would return without the penalty. An attestation signed for at most a year has
	// expired by then if it dates from before the loss.
	PenaltyForgotten rota.Clock = 366 * 24 * 3_600_000
	// WindowSlots is how many slots of WindowSlotMs make the sliding window of a failure domain (SPEC §4.8).
	WindowSlots             = 6
	WindowSlotMs rota.Clock = 10_000
	// PromoteEvery is how often aged jobs of adaptive queues rise (SPEC §10.3).
	PromoteEvery rota.Clock = 5_000
	// MaxOffer is how long a polling worker may offer slots at a time (SPEC §13.17): a poll, and a second for a node
	// whose clock is behind. It is less than the silence that ends a worker.
	MaxOffer rota.Clock = 9_000
	// JailMs is how long the third invalid proof jails a worker (SPEC §6.2).
	JailMs rota.Clock = 600_000
	// DeclineDelay is how long a job waits after the first decline of an attempt. The wait doubles with each further
	// decline, up to MaxDeclineDelay (SPEC §16.1): a worker that declines at once costs at most ten entries a second,
	// and a lease's time is never lost.
	DeclineDelay    rota.Clock = 100
	MaxDeclineDelay rota.Clock = 10_000
	// MaxHoldsDegraded is how long an automatic DEGRADED mode holds jobs without a break (SPEC §4.7).
	MaxHoldsDegraded rota.Clock = 600_000
	// UploadLapses is the time after which a workflow whose nodes stopped arriving is dropped.
	UploadLapses rota.Clock = 60_000
	// DeclineTimesOut is how long before max_runtime a decline counts as an overrun
	// (SPEC §20.2).
	DeclineTimesOut rota.Clock = 2_000
	// ProgressEvery is the shortest time between two stored progress reports of a job (SPEC §8.7).
	ProgressEvery rota.Clock = 1_000
)

const (
	// RecentQueues bounds the queues for which a node counts the last quarter of an hour: half a KiB each.
	RecentQueues = 1_000
	// RecentError bounds the bytes of the newest error that is kept for each: one line of a screen.
	RecentError = 200
)

// MaxDecide bounds the pairs of one entry of rounds: a node that proves it must stop where the leader stopped.
const MaxDecide = 1_024

// These are the durations that nodes and workers measure on their own (SPEC §3.5).
const (
	// SweepEvery is the leader's tick while anything can fire (SPEC §3.6).
	SweepEvery = 250 * time.Millisecond
	// BeatEvery is the shortest time between two beats of a worker (SPEC §3.9).
	BeatEvery = 2 * time.Second
	// MaxBeatIdle is the longest time between two beats of a worker without a lease; with a lease it is half as long. A
	// second beat still fits before BeatLost.
	MaxBeatIdle = 10 * time.Second
	// BeatsIdle is how many workers without a lease beat per second when BeatEvery would allow more: each beat costs
	// the servers about 190 µs.
	BeatsIdle = 200
	// MaxPoll is the longest time a poll waits: it is one beat, and silence begins at 10 s.
	MaxPoll = 8 * time.Second
	// ViewMargin is subtracted from a worker's view of any deadline (SPEC §3.9).
	ViewMargin = time.Second
	// BeatLost is the time without an answered beat after which handlers end, counted from sending the last answered
	// one (SPEC §3.9).
	BeatLost = 30 * time.Second
	// VouchedFor is how long a node without contact to a leader still serves reads that do not ask for the newest
	// state, and streams the state that it holds. Rights may be revoked meanwhile, and an election takes seconds.
	VouchedFor = 30 * time.Second
)
