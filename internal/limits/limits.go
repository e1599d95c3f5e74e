package limits

import (
	"time"

	"github.com/rotasched/rota"
)

// Numbers and sizes.
const (
	// BackgroundPriority and beyond give way to critical jobs (SPEC §7.9).
	BackgroundPriority = 9
	// MaxMeasuredQueues and MaxMeasuredTypes bound the series of metrics of attempts: a scrape stays below some MiB.
	MaxMeasuredQueues = 1_000
	MaxMeasuredTypes  = 200
	// MaxErrorBytes cuts a handler's error text: the last of it is kept.
	MaxErrorBytes = 4 << 10
	// MaxNoteBytes cuts a progress note.
	MaxNoteBytes = 256
	// StuckRetryAfter is the delay of a refusal by a full queue that nothing drains: it
	// is paused, or no worker serves it. The refusal says what to do meanwhile.
	StuckRetryAfter = 5 * time.Second
	// MaxQueues and MaxTenants bound the cluster's tables.
	MaxQueues  = 10_000
	MaxTenants = 100_000
	// MaxRoles, MaxTokens and MaxBlocks bound the tables of rights, which every node holds
	// in memory and the edge reads at every call.
	MaxRoles  = 1_000
	MaxTokens = 100_000
	MaxBlocks = 10_000
	// MaxOwned… bound what one principal has of each kind, unless it may do everything: what
	// one tenant's script makes without end leaves room for others. Workers and tenants are as
	// many as a large team has; queues cost every round.
	MaxOwnedQueues    = 100
	MaxOwnedTenants   = 1_000
	MaxOwnedWorkers   = 1_000
	MaxOwnedWorkflows = 1_000
	MaxOwnedTokens    = 100
	MaxOwnedSchedules = 1_000
	MaxOwnedBatches   = 1_000
	MaxOwnedWebhooks  = 20
	// MaxWebhooks bounds webhooks: a leader holds every event against each of them. MaxWebhookSees
	// bounds the rights by which one selects events, MaxDeliveries what one entry makes of one
	// hook and DeliveryBytes how large it is unless it has one, so that it holds others up for a few
	// milliseconds; MaxPendingDeliveries how far a hook runs ahead of its receiver.
	MaxWebhooks          = 100
	MaxWebhookSees       = 64
	MaxDeliveries        = 500
	DeliveryBytes        = 256 << 10
	MaxPendingDeliveries = 10_000
	// MaxBatches bounds batches, of which ended ones give way to new ones; MaxBatchBytes what
	// those that have not ended keep of their callbacks.
	MaxBatches    = 100_000
	MaxBatchBytes = 64 << 20
	// MaxSchedules and MaxScheduleBytes bound schedules, which every leader looks through each
	// second; MaxScheduleRuns what of one lives, and what waits, MaxRuns what of all does.
	// MaxDecisions bounds the decisions that a row shows.
	MaxSchedules     = 10_000
	MaxScheduleBytes = 64 << 20
	MaxScheduleRuns  = 1_000
	MaxRuns          = 1_000_000
	MaxDecisions     = 10
	// MaxPlansRunning bounds the plans that a leader goes through by turns, MaxPlansOfOne those of one
	// principal that may not do everything, so that none keeps all others out, and MaxPlans those that are
	// kept: the oldest that is over makes room. MaxPlanItems bounds the jobs of a step, so that one
	// entry holds others up for a few milliseconds, PlanStepBytes what a step brings unless it has
	// one job, MaxPlanRefusals the refusals that a row shows.
	MaxPlansRunning = 10
	MaxPlansOfOne   = 2
	MaxPlans        = 100
	MaxPlanItems    = 500
	PlanStepBytes   = 256 << 10
	MaxPlanRefusals = 20
	// MaxGrants bounds a role; MaxTokenRoles and MaxTokenPatterns a token: a call is judged
	// by all of a token's grants at the worst.
	MaxGrants        = 64
	MaxTokenRoles    = 8
	MaxTokenPatterns = 8
	// MaxTokenFile bounds the bytes of a file with an access token: the token's most, and an end of line.
	MaxTokenFile = 128
	// MaxTokenLife bounds how long a token may live unless it is replaced: a year, leap days
	// included.
	MaxTokenLife = 366 * 24 * time.Hour
	// MaxSessionLife bounds a browser session's life, SessionLink that of a link to one that nobody
	// has opened. Of a principal's sessions MaxSessions count, and MaxSessionRows are known, with
	// those that have ended, which are known for SessionEnded: a repeated opening revives none.
	MaxSessionLife = 12 * time.Hour
	SessionLink    = time.Minute
	MaxSessions    = 16
	MaxSessionRows = 64
	SessionEnded   = 10 * time.Minute
	// MaxViaBytes bounds how an operation says by which node and door it came.
	MaxViaBytes = rota.MaxIDBytes + 16
	// MaxIssuers bounds identity providers, MaxIssuerMaps what each maps to roles, MaxIssuerText
	// the bytes of a URL, an audience, a claim and its value, MaxIssuerCA those of the
	// certificates that vouch for one, MaxSubject those of a subject and of a claim that was found.
	MaxIssuers    = 100
	MaxIssuerMaps = 64
	MaxIssuerText = 200
	MaxIssuerCA   = 16 << 10
	MaxSubject    = 255
	// MaxJWT bounds an identity token's bytes; MaxJWTLife how long it may count, as it is kept in
	// mind until then; JWTSkew how far two clocks may differ; MaxSignIn how long an access
	// token counts that it was exchanged for. MaxSpent bounds those that are kept in mind.
	MaxJWT     = 16 << 10
	MaxJWTLife = 24 * time.Hour
	JWTSkew    = time.Minute
	MaxSignIn  = time.Hour
	MaxSpent   = 100_000
	// MaxWorkers bounds registered workers, retired ones included until forgotten.
	MaxWorkers = 100_000
	// MaxClassesPerQueue bounds distinct requirement sets a queue (SPEC §1).
	MaxClassesPerQueue = 10_000
	// MaxFiringsPerSweep bounds one sweep's work under the apply lock (SPEC §3.6).
	MaxFiringsPerSweep = 1_000
	// DrainMoves and DrainLooks bound a step of emptying a queue: the jobs that it moves,
	// and those that it looks at, under the apply lock too (SPEC §21.5).
	DrainMoves = 500
	DrainLooks = 50_000
	// MaxPreemptions, MaxPreemptSeen and MaxPreemptLooks bound what one entry of
	// rounds spends on preemption (SPEC §7.9): the preemptions, the critical jobs
	// seen, and the workers looked at for them; the next entry goes on.
	MaxPreemptions  = 64
	MaxPreemptSeen  = 1_024
	MaxPreemptLooks = 50_000
	// MaxTypes bounds the job types with statistics; more have none.
	MaxTypes = 10_000
	// MaxEstimates bounds the tenants and types, over all queues, whose run times estimates are learned from
	// (SPEC §26.1): the one whose last lesson is oldest gives way.
	MaxEstimates = 20_000
	// MaxExpectedTypes bounds the types for which a queue's owner sets an expected time:
	// they stand in the queue's row.
	MaxExpectedTypes = 1_000
	// MaxKeyRules bounds the rules of keys, MaxKeyCounts the keys that are counted under them
	// (SPEC §19.5): each is a row of some 200 bytes.
	// MaxKeyStates bounds what is told of one key.
	MaxKeyRules  = 10_000
	MaxKeyStates = 1_000
	MaxKeyCounts = 1_000_000
	// MaxDomains bounds the failure domains with outcomes in their window, over all
	// queues; outcomes of more are not counted.
	MaxDomains = 10_000
	// MaxRateLimiters bounds the tenants whose rate or rolling window is measured at a time,
	// over all queues: as many as there may be tenants.
	MaxRateLimiters = MaxTenants
	// MaxTypesPerWorker bounds each of a worker's lists of types: failing, cooling,
	// denied, executed. The oldest give way.
	MaxTypesPerWorker = 64
	// MaxBackupNameBytes bounds the name of a backup: a cluster id and an index, with room.
	MaxBackupNameBytes = 256
	// MaxReasonBytes bounds an operator's reason, of a mode or a proof report.
	MaxReasonBytes = 256
	// MaxOthers bounds the workers that an explanation lists.
	MaxOthers = 100
	// MaxDeclines of one attempt use it up (SPEC §8.4).
	MaxDeclines = 20
	// IsolateAfter is how many losses of its worker make a job run alone (SPEC §9.7): one may be chance or a neighbor's
	// fault, and each more costs the neighbors of a job that kills its worker.
	IsolateAfter = 2
	// MaxSnoozes of one attempt are free, the next uses it up (SPEC §20.3): a handler that
	// waits for what never comes ends.
	MaxSnoozes = 1_000
	// MaxFailWait bounds how long a handler may have its job wait (SPEC §20.3).
	MaxFailWait = 30 * 24 * time.Hour
	// MaxFilterBytes, MaxFilterTerms and MaxFilterValues bound a filter of jobs: all of it is
	// held against up to 100,000 rows for one page.
	MaxFilterBytes  = 4096
	MaxFilterTerms  = 32
	MaxFilterValues = 64
	// MaxGroups bounds the groups of jobs that one page counts: their answer fits a message.
	MaxGroups = 1_000
	// MaxAttemptsKept bounds the attempts that `job show` lists; the newest are kept.
	MaxAttemptsKept = 12
	// MaxLogLine bounds a line of an attempt's log, MaxLogHead and MaxLogTail the first and the
	// last bytes that are kept of all (SPEC §22.1): enough to see how it began and how it
	// ended, and less than a payload.
	MaxLogLine = 4 << 10
	MaxLogHead = 16 << 10
	MaxLogTail = 48 << 10
	// MaxLogPacked bounds such a log in the log of entries: packed it is no longer than before,
	// but for a frame.
	MaxLogPacked = MaxLogHead + MaxLogTail + 1<<10
	// MaxLogsBeat bounds what one beat brings of logs.
	MaxLogsBeat = 256 << 10
	// MaxLogsBytes bounds the logs of open attempts at a node (SPEC §22.2).
	MaxLogsBytes = 256 << 20
	// TombstoneCap bounds terminal jobs remembered (SPEC §9.4).
	TombstoneCap = 1_000_000
	// RecordBytesCap bounds the full records (payload, output, attempts) of terminal
	// jobs that a node holds in memory on their way to its archive (SPEC §10.5). It is
	// reached only where the archive cannot keep up for minutes; then the oldest are
	// given up, counted, and fetched from another node.
	RecordBytesCap = 256 << 20
	// MaxDeletedRanges bounds the ranges of numbers of deleted jobs, some 100 MB: those that
	// ended one after another are one range, and retention takes them (SPEC §21.3).
	MaxDeletedRanges = 1_000_000
	// MaxUniqueKeys bounds the keys that jobs hold, some 150 MB: as many as tombstones.
	// MaxMerged bounds the merged submissions that answer a repetition: clients repeat for at
	// most 40 s, in which no cluster merges more.
	MaxUniqueKeys = 1_000_000
	MaxMerged     = 100_000
	// MaxWorkflows, MaxVertices and MaxWorkflowsBytes bound what is kept of all
	// workflows: the oldest ended ones give way to new ones, running ones refuse them.
	MaxWorkflows      = 10_000
	MaxVertices       = 2_000_000
	MaxWorkflowsBytes = 1 << 30
	// MaxNodeAttempts bounds the attempts that are kept of nodes that did not COMPLETE,
	// for a retry of their workflow to bring along: some 60 MB. MaxNodeErrorBytes cuts
	// their errors.
	MaxNodeAttempts   = 100_000
	MaxNodeErrorBytes = 256
	// MaxChunkNodes bounds one operation that adds nodes: its part of an entry is
	// applied in a few milliseconds.
	MaxChunkNodes = 500
	// MaxChildrenBytes bounds what a completion adds to its workflow, as it is encoded (SPEC §23.2): it
	// is one operation of an entry, beside an output of the most bytes.
	MaxChildrenBytes = 128 << 10
	// MaxChildrenFile bounds the file in which a command describes children, as JSON: names of
	// fields, blanks and escapes take several times what is encoded.
	MaxChildrenFile = 8 * MaxChildrenBytes
	// MaxFlowSteps bounds the nodes that one entry releases, skips, cancels or
	// forgets; the next entry goes on.
	MaxFlowSteps = 1_000
	// MaxFlowBytes bounds the records of ended nodes that one entry leaves for the
	// archive, about: far less than what waits for it in memory (RecordBytesCap).
	MaxFlowBytes = 16 << 20
	// MaxWorkflowClasses bounds the distinct requirement sets of a workflow's nodes: it
	// gives them back, or takes them anew, in one entry.
	MaxWorkflowClasses = 1_000
	// MaxDataHeld bounds the data keys that a worker is known to hold; the oldest
	// give way (SPEC §7.6).
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
	// MaxAcquire bounds the leases that one poll asks for: they come in one answer.
	MaxAcquire = 100
)

// Durations of SPEC §3, §6 and §9 that the state machine reads, in milliseconds.
const (
	// ScheduleLate is how late a schedule's date is on time: leaders change in a few seconds.
	// ScheduleRetry is how long after a refusal a run that waits is tried again.
	ScheduleLate  rota.Date  = 10_000
	ScheduleRetry rota.Clock = 1_000
	// BatchSeals is after which time without a job an open batch is sealed, on the date;
	// BatchRetry how long after a refusal a batch's callback is tried again.
	BatchSeals rota.Date = 24 * 3_600_000
	BatchRetry rota.Date = 1_000
	// A delivery is tried DeliveryAttempts times, with waits that double from DeliveryBase to
	// DeliveryCap: for three days. DeliveryRuntime bounds a try: the relay gives a receiver 15 s.
	DeliveryAttempts = 82
	DeliveryBase     = 5 * time.Second
	DeliveryCap      = time.Hour
	DeliveryRuntime  = 30 * time.Second
	// SecretOverlap is how long the secret before still signs after a rotation.
	SecretOverlap = 24 * time.Hour
	// ClockLeapMax is how far ahead of the clock an entry may be (SPEC §3.2), in every cluster but
	// those of VirtualLeapMax.
	ClockLeapMax rota.Clock = 1_000
	// VirtualLeapMax is the most that a cluster may be founded with instead, for tests in virtual
	// time, which pass days.
	VirtualLeapMax rota.Clock = 600_000
	// StampLeadMax is how far a leader stamps ahead of the applied clock (SPEC §3.3).
	StampLeadMax rota.Clock = 500
	// GraceMargin is how much sooner than its lease_grace_on_disconnect a worker ends what
	// runs: 2 s for its processes to die, 1 s for the view (SPEC §16.7).
	GraceMargin = 3 * time.Second
	// SilenceBeyond is how much later than its next beat was to come the leader takes a worker for
	// UNREACHABLE (SPEC §3.10): three beats in a row that are lost are no accident any more.
	SilenceBeyond rota.Clock = 8_000
	// WorkerForgotten is when a RETIRED or UNREACHABLE worker without leases
	// leaves the state, in clock.
	WorkerForgotten rota.Clock = 24 * 3_600_000
	// GhostForgotten is when a worker that is silent leaves that never had a lease: whoever
	// registers names without end fills no table with them.
	GhostForgotten rota.Clock = 600_000
	// PenaltyForgotten is when one leaves that lost a part of its stake, or left while it
	// was SUSPENDED: it would come back without. Whoever signs attestations for no longer
	// than a year knows that those of before the loss are over by then.
	PenaltyForgotten rota.Clock = 366 * 24 * 3_600_000
	// WindowSlots of WindowSlotMs make the sliding window of a failure domain
	// (SPEC §4.8).
	WindowSlots             = 6
	WindowSlotMs rota.Clock = 10_000
	// PromoteEvery is when aged jobs of adaptive queues rise (SPEC §10.3).
	PromoteEvery rota.Clock = 5_000
	// MaxOffer is how long a worker that polls may offer slots at a time (SPEC §13.17): a poll, and
	// a second for a node whose clock is behind. It is less than the silence that ends a worker.
	MaxOffer rota.Clock = 9_000
	// JailMs of the third invalid proof (SPEC §6.2).
	JailMs rota.Clock = 600_000
	// DeclineDelay is what a job waits after the first decline of an attempt, twice as
	// long after each more, up to MaxDeclineDelay (SPEC §16.1): a worker that declines
	// at once costs no more than ten entries a second, and a lease's time is never lost.
	DeclineDelay    rota.Clock = 100
	MaxDeclineDelay rota.Clock = 10_000
	// MaxHoldsDegraded is how long an automatic DEGRADED holds at a stretch (SPEC §4.7).
	MaxHoldsDegraded rota.Clock = 600_000
	// UploadLapses is when a workflow whose nodes stopped arriving is given up.
	UploadLapses rota.Clock = 60_000
	// DeclineTimesOut is how long before max_runtime a decline counts as an overrun
	// (SPEC §20.2).
	DeclineTimesOut rota.Clock = 2_000
	// ProgressEvery is the least time between two kept progress reports of a
	// job (SPEC §8.7).
	ProgressEvery rota.Clock = 1_000
)

const (
	// RecentQueues bounds the queues whose last quarter of an hour a node counts: half a KiB each.
	RecentQueues = 1_000
	// RecentError bounds the bytes of the newest error that is kept of each: a line of a screen.
	RecentError = 200
)

// MaxDecide bounds the pairs of one entry of rounds: those who prove it must stop where the
// leader stopped.
const MaxDecide = 1_024

// Durations that nodes and workers measure on their own (SPEC §3.5).
const (
	// SweepEvery is the leader's tick while anything can fire (SPEC §3.6).
	SweepEvery = 250 * time.Millisecond
	// BeatEvery is the least time between two beats of a worker (SPEC §3.9).
	BeatEvery = 2 * time.Second
	// MaxBeatIdle is the most time between two beats of a worker without a lease; with one it is half as much. A
	// second beat still fits before BeatLost.
	MaxBeatIdle = 10 * time.Second
	// BeatsIdle is how many workers without a lease beat a second, once BeatEvery would have more of them do so:
	// each costs the servers some 190 µs.
	BeatsIdle = 200
	// MaxPoll is how long a poll waits at most: it is one beat, and silence begins at 10 s.
	MaxPoll = 8 * time.Second
	// ViewMargin is taken off a worker's view of any deadline (SPEC §3.9).
	ViewMargin = time.Second
	// BeatLost ends handlers when no beat was answered for so long, counted
	// from sending the last answered one (SPEC §3.9).
	BeatLost = 30 * time.Second
	// VouchedFor is how long a node that hears of no leader still shows its state to who does
	// not ask for the newest, and streams what it holds: rights may be taken back meanwhile,
	// and an election takes seconds.
	VouchedFor = 30 * time.Second
)
