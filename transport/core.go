package transport

import (
	"context"
	"io"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// Core is the node as the protocol needs it, expressed in types of package rota. The binary passes a cluster.Node; this
// package does not import that one.
//
// Every method may be called on any node. The core forwards writes to the leader, once. While there is no leader,
// writes wait up to ctx's deadline, then fail with kind Unavailable and a retry delay (SPEC §13.1). All errors are
// *rota.Error.
type Core interface {
	JobCore
	WhyCore
	WorkerCore
	QueueCore
	TenantCore
	WorkflowCore
	BatchCore
	ScheduleCore
	WebhookCore
	PlanCore
	KeyCore
	BudgetCore
	AuthCore
	SessionCore
	ClusterCore
	SelfCore
}

// JobCore serves jobs.
type JobCore interface {
	// Submit admits jobs and returns one outcome per job, in order. err applies to the whole batch: no outcome is
	// known, so submit again with the same ids.
	Submit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error)
	// Job reads one job. NotFound: the id is unknown.
	Job(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error)
	// Jobs reads one page of jobs.
	Jobs(ctx context.Context, f rota.JobFilter, opt peer.ReadOptions) (rota.JobPage, rota.ReadAt, error)
	// AwaitJobs calls done for each job once it is terminal, in the order they end, and returns nil after the last. An
	// unknown job ends it with NotFound. It reads this node's replica, so it survives failovers.
	AwaitJobs(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error
	// JobLog reads the log of an attempt. NotFound(attempt): there is no such attempt. NotFound(lease): the attempt has
	// ended and its log is not kept (SPEC §22.3).
	JobLog(ctx context.Context, of rota.LogOf, opt peer.ReadOptions) (rota.AttemptLog, rota.ReadAt, error)
	Cancel(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error)
	Retry(ctx context.Context, retries []rota.JobRetry) ([]rota.JobOutcome, error)
	// DeleteJobs deletes jobs that have ended (SPEC §21.3).
	DeleteJobs(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error)
	// ChangeJob changes a pending job (SPEC §21.2).
	ChangeJob(ctx context.Context, change rota.JobChange) (rota.JobOutcome, error)
	// Interrupt ends the current attempt of each job, counted or not, and retries the job (SPEC §21.9).
	Interrupt(ctx context.Context, ids []rota.JobID, counted bool) ([]rota.JobOutcome, error)
	// RunNow queues DELAYED jobs before their time (SPEC §21.10).
	RunNow(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error)
	// ReportProof records a verifier's verdict on a completed job (SPEC §9.5).
	ReportProof(ctx context.Context, report rota.ProofReport) (rota.JobOutcome, error)
}

// WhyCore explains current and past decisions, and forecasts starts.
type WhyCore interface {
	// Why explains a job, now or in the past. OutOfRange: that past is no longer kept, or lies in the future.
	// Exhausted: other callers are looking at the past.
	Why(ctx context.Context, id rota.JobID, q rota.WhyQuery, opt peer.ReadOptions) (rota.Explanation, rota.ReadAt,
		error)
	// ETA forecasts when a job starts. Exhausted: other forecasts are running.
	ETA(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.ETA, rota.ReadAt, error)
	// Past returns what a query of a past state has to replay. OutOfRange as for Why.
	Past(ctx context.Context, q rota.WhyQuery) (rota.Past, error)
	// Round computes a round again on the state at its height, and compares it with the log's (SPEC §2.4). NotFound:
	// the log has no such round. OutOfRange and Exhausted as for Why.
	Round(ctx context.Context, epoch uint64, height rota.Index) (peer.Round, rota.ReadAt, error)
}

// WorkerCore serves workers and the operations that operators run on them.
type WorkerCore interface {
	Workers(ctx context.Context, opt peer.ReadOptions) ([]rota.Worker, rota.ReadAt, error)
	Worker(ctx context.Context, id rota.WorkerID, opt peer.ReadOptions) (rota.Worker, rota.ReadAt, error)
	// These are the four changes of a worker's status that an operator makes (SPEC §6.3).
	DrainWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	SuspendWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	ResumeWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	RetireWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	// WorkerGone accepts a guard's report that a worker's process has died and that nothing of it still runs: its
	// leases end at once (SPEC §16.7). Stale: the session is over. Denied: the secret does not match.
	WorkerGone(ctx context.Context, id rota.WorkerID, session rota.Session, secret []byte) error
	// OpenWorker registers a worker, or resumes its live session, and returns the session that serves its stream. The
	// attestation is nil when the worker presents none; an invalid one registers nothing (SPEC §6.5).
	OpenWorker(ctx context.Context, spec rota.WorkerSpec, secret []byte, takeover bool,
		attestation *rota.Attestation, link peer.WorkerLink) (WorkerSession, error)
	// AttachWorker attaches to the live session of a worker that has no stream, for one call and without a log entry.
	// NotFound: there is no such session. Denied: the secret or the caller does not match.
	AttachWorker(ctx context.Context, id rota.WorkerID, secret []byte) (WorkerSession, error)
	DeleteWorker(ctx context.Context, id rota.WorkerID) error
}

// QueueCore serves queues and their policies.
type QueueCore interface {
	Queues(ctx context.Context, opt peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error)
	Queue(ctx context.Context, name rota.QueueName, opt peer.ReadOptions) (rota.Queue, rota.ReadAt, error)
	// Lanes reads the largest lanes of a queue, up to the query's maximum.
	Lanes(ctx context.Context, query peer.LanesQuery, opt peer.ReadOptions) (peer.Lanes, rota.ReadAt, error)
	// DeleteQueue, DeleteTenant and DeleteWorker delete a row that nothing refers to. A missing row is not an error
	// (SPEC §21.4).
	DeleteQueue(ctx context.Context, name, drainTo rota.QueueName) (left uint64, err error)
	SetQueue(ctx context.Context, name rota.QueueName, preset string, set []rota.Setting) (rota.Queue, error)
	// PreviewQueue, PreviewTenant and PreviewCluster return what the corresponding set call would return and change;
	// they store nothing.
	PreviewQueue(ctx context.Context, name rota.QueueName, preset string, set []rota.Setting) (rota.Queue, error)
}

// TenantCore serves tenants and their limits.
type TenantCore interface {
	Tenants(ctx context.Context, opt peer.ReadOptions) ([]rota.Tenant, rota.ReadAt, error)
	// Tenant reads any tenant. A tenant that was never set has the default limits.
	Tenant(ctx context.Context, id rota.TenantID, opt peer.ReadOptions) (rota.Tenant, rota.ReadAt, error)
	SetTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error)
	DeleteTenant(ctx context.Context, id rota.TenantID) error
	PreviewTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error)
}

// WorkflowCore serves workflows.
type WorkflowCore interface {
	// SubmitWorkflow admits a workflow, all of it or nothing. Submitting a known id again returns the known workflow
	// (SPEC §11.1).
	SubmitWorkflow(ctx context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error)
	// Workflow reads a workflow, with or without its nodes, critical path and estimates. Workflows reads one page of
	// workflows, without them.
	Workflow(ctx context.Context, id rota.WorkflowID, nodes bool, opt peer.ReadOptions) (rota.Workflow, rota.ReadAt,
		error)
	Workflows(ctx context.Context, f rota.WorkflowFilter, opt peer.ReadOptions) (rota.WorkflowPage, rota.ReadAt, error)
	// AwaitWorkflow returns a workflow, without nodes, once it has ended.
	AwaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error)
	CancelWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error)
	// SignalWorkflow delivers a signal to a gate.
	SignalWorkflow(ctx context.Context, signal rota.Signal) (rota.Signalled, error)
	// RetryWorkflow runs the nodes that did not complete again: all of them, or with from set that node, its
	// descendants, and the nodes they wait for (SPEC §11.3). runs is the number of the run that this one follows, so
	// that repeated calls make one run; 0 means the run that is current when the call arrives.
	RetryWorkflow(ctx context.Context, id rota.WorkflowID, from string, runs int32) (rota.Workflow, error)
	// ParentOutputs calls send for each parent of a node's job, in the order of their
	// numbers (SPEC §11.2).
	ParentOutputs(ctx context.Context, job rota.JobID, send func(rota.ParentOutput) error) error
}

// BatchCore serves batches (SPEC §24).
type BatchCore interface {
	// OpenBatch and SealBatch change a batch (SPEC §24); AwaitBatch returns one once it has ended.
	OpenBatch(ctx context.Context, spec rota.BatchSpec) (rota.Batch, error)
	SealBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error)
	Batch(ctx context.Context, id rota.BatchID, opt peer.ReadOptions) (rota.Batch, rota.ReadAt, error)
	Batches(ctx context.Context, by rota.Principal, after rota.BatchID, limit int,
		opt peer.ReadOptions) (peer.BatchPage, rota.ReadAt, error)
	AwaitBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error)
}

// ScheduleCore serves schedules (SPEC §17).
type ScheduleCore interface {
	Schedules(ctx context.Context, opt peer.ReadOptions) ([]rota.Schedule, rota.ReadAt, error)
	Schedule(ctx context.Context, name rota.ScheduleName, opt peer.ReadOptions) (rota.Schedule, rota.ReadAt, error)
	// SetSchedule creates a schedule, or replaces its specification (SPEC §17.1).
	SetSchedule(ctx context.Context, spec rota.ScheduleSpec) (rota.Schedule, error)
	PauseSchedule(ctx context.Context, name rota.ScheduleName, reason string) (rota.Schedule, error)
	ResumeSchedule(ctx context.Context, name rota.ScheduleName, catchUp bool) (rota.Schedule, error)
	TriggerSchedule(ctx context.Context, name rota.ScheduleName, id string) (rota.JobOutcome, error)
	// BackfillSchedule runs the dates of a past period, and returns how many there are.
	BackfillSchedule(ctx context.Context, name rota.ScheduleName, from, until rota.Date, overlap rota.Overlap) (int,
		rota.Schedule, error)
	DeleteSchedule(ctx context.Context, name rota.ScheduleName) error
	// NextDates calculates the dates after a given one, 0 for those that are not decided yet, and returns the time zone
	// release used.
	NextDates(ctx context.Context, name rota.ScheduleName, after rota.Date, most int,
		opt peer.ReadOptions) ([]rota.Date, string, rota.ReadAt, error)
	// DatesOf calculates the first dates after a given one, for a schedule that is not set yet.
	DatesOf(times *rota.ScheduleTimes, after rota.Date, most int) ([]rota.Date, error)
}

// WebhookCore serves webhooks (SPEC §13.14).
type WebhookCore interface {
	// SetWebhook creates a webhook, or replaces its specification (SPEC §13.14).
	SetWebhook(ctx context.Context, spec rota.WebhookSpec) (rota.Webhook, error)
	PauseWebhook(ctx context.Context, name rota.WebhookName, reason string) (rota.Webhook, error)
	ResumeWebhook(ctx context.Context, name rota.WebhookName) (rota.Webhook, error)
	SkipWebhook(ctx context.Context, name rota.WebhookName) (rota.Webhook, error)
	DeleteWebhook(ctx context.Context, name rota.WebhookName) error
	Webhook(ctx context.Context, name rota.WebhookName, opt peer.ReadOptions) (rota.Webhook, rota.ReadAt, error)
	Webhooks(ctx context.Context, opt peer.ReadOptions) ([]rota.Webhook, rota.ReadAt, error)
}

// PlanCore serves plans (SPEC §21.7).
type PlanCore interface {
	Plans(ctx context.Context, opt peer.ReadOptions) ([]rota.Plan, rota.ReadAt, error)
	Plan(ctx context.Context, id rota.PlanID, opt peer.ReadOptions) (rota.Plan, rota.ReadAt, error)
	// StartPlan starts one verb for all jobs that a filter selects (SPEC §21.7).
	StartPlan(ctx context.Context, spec rota.PlanSpec) (rota.Plan, error)
	// PreviewPlan returns what a plan would do, and changes nothing.
	PreviewPlan(ctx context.Context, spec rota.PlanSpec) (rota.PlanPreview, error)
	CancelPlan(ctx context.Context, id rota.PlanID, reason string) (rota.Plan, error)
}

// KeyCore serves keys and their rules (SPEC §19).
type KeyCore interface {
	// SetKeyRule, DeleteKeyRule, SkipKey, PauseKey and ResumeKey change what jobs with keys must meet. Key returns the
	// current counts of one tenant's key (SPEC §19).
	SetKeyRule(ctx context.Context, r rota.KeyRule) (rota.KeyRule, error)
	DeleteKeyRule(ctx context.Context, queue rota.QueueName, name, value string) error
	SkipKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string, job rota.JobID) error
	PauseKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string, until rota.Date,
		reason string) error
	ResumeKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string) error
	KeyRules(ctx context.Context, opt peer.ReadOptions) ([]rota.KeyRule, rota.ReadAt, error)
	Key(ctx context.Context, tenant rota.TenantID, key string, opt peer.ReadOptions) ([]rota.KeyState, rota.ReadAt,
		error)
	// KeyStates reads a page of the counted keys, the most used first, and returns where the next page begins.
	KeyStates(ctx context.Context, f rota.KeyFilter, opt peer.ReadOptions) ([]rota.KeyState, string, rota.ReadAt, error)
}

// BudgetCore serves budgets and their accounts (SPEC §30.5).
type BudgetCore interface {
	SetBudget(ctx context.Context, b rota.Budget) (rota.BudgetState, error)
	DeleteBudget(ctx context.Context, name rota.BudgetName) error
	GrantBudget(ctx context.Context, name rota.BudgetName, of string, c rota.BudgetChange) (rota.BudgetAccount, error)
	// ResetBudget forgets the spent amount of one account, or of all of a budget.
	ResetBudget(ctx context.Context, name rota.BudgetName, of string, all bool, c rota.BudgetChange) error
	// Budgets lists the budgets by name: those with an open question if asking is set.
	Budgets(ctx context.Context, asking bool, opt peer.ReadOptions) ([]rota.BudgetState, rota.ReadAt, error)
	Budget(ctx context.Context, name rota.BudgetName, opt peer.ReadOptions) (rota.BudgetState, rota.ReadAt, error)
	// BudgetAccounts reads a page of accounts, and returns where the next page begins.
	BudgetAccounts(ctx context.Context, f rota.BudgetAccountFilter, opt peer.ReadOptions) ([]rota.BudgetAccount, string,
		rota.ReadAt, error)
}

// AuthCore serves access tokens, roles and blocked certificates.
type AuthCore interface {
	// CreateToken records a token with the hash of its secret. Conflict: its id belongs to another token, or was
	// revoked. AccessTokens lists the tokens, including revoked ones.
	CreateToken(ctx context.Context, t rota.AccessToken, hash [32]byte) (rota.AccessToken, error)
	// InitAuth creates the first token, once, or with reset another one. From the first token on, callers without a
	// token have no rights.
	InitAuth(ctx context.Context, t rota.AccessToken, hash [32]byte, reset bool) (rota.AccessToken, error)
	AccessTokens(ctx context.Context, opt peer.ReadOptions) ([]rota.AccessToken, rota.ReadAt, error)
	RevokeToken(ctx context.Context, id string) error
	SetRole(ctx context.Context, role rota.Role) (rota.Role, error)
	Roles(ctx context.Context, opt peer.ReadOptions) ([]rota.Role, rota.ReadAt, error)
	DeleteRole(ctx context.Context, name string) error
	// SetBlock blocks the certificates of a role and a name, or unblocks them.
	SetBlock(ctx context.Context, role, name string, blocked bool) error
	Blocks(ctx context.Context, opt peer.ReadOptions) ([]rota.Block, rota.ReadAt, error)
	// SetAnonymous sets the roles of callers without a credential.
	SetAnonymous(ctx context.Context, roles []string) error
}

// SessionCore serves identity providers and browser sessions.
type SessionCore interface {
	// SetIssuer sets an identity provider whose tokens are accepted. Exchange creates an access token for a verified
	// one.
	SetIssuer(ctx context.Context, i rota.Issuer) (rota.Issuer, error)
	Issuers(ctx context.Context, opt peer.ReadOptions) ([]rota.Issuer, rota.ReadAt, error)
	DeleteIssuer(ctx context.Context, url string) error
	Exchange(ctx context.Context, s access.SignIn) (rota.AccessToken, error)
	// OpenSession creates a browser session of the caller, which ends at until at the latest; 0 means no such date.
	// ClaimSession gives the session of a link its secret, EndSession ends one.
	OpenSession(ctx context.Context, id string, hash [32]byte, link bool, until rota.Date) (rota.AccessToken, error)
	ClaimSession(ctx context.Context, id string, hash [32]byte) (rota.AccessToken, error)
	EndSession(ctx context.Context, id string) error
}

// ClusterCore serves the cluster itself: settings, mode, members, backups.
type ClusterCore interface {
	// SetCluster changes the cluster's own settings.
	SetCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error)
	PreviewCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error)
	// Mode and SetMode read and set what the cluster admits (SPEC §4.3).
	Mode(ctx context.Context, opt peer.ReadOptions) (rota.ModeStatus, rota.ReadAt, error)
	SetMode(ctx context.Context, mode rota.ClusterMode, reason string) (rota.ModeStatus, error)
	Status(ctx context.Context) (rota.ClusterStatus, error)
	Peers(ctx context.Context) ([]rota.RaftPeer, error)
	// Views gathers each node's view of every other node.
	Views(ctx context.Context) ([]peer.NodeViews, error)
	TransferLeadership(ctx context.Context, to rota.NodeID) (rota.NodeID, error)
	RemovePeer(ctx context.Context, id rota.NodeID) error
	// Leave hands over leadership, leaves the configuration and stops the process after the answer is sent.
	Leave(ctx context.Context) error
	// SaveSnapshot writes an online backup of this node's state (SPEC §13.5).
	SaveSnapshot(ctx context.Context, how peer.ReadOptions, w io.Writer) error
	// StoreBackup stores a backup at the destination of --backup-to; leader only.
	StoreBackup(ctx context.Context) (rota.StoredBackup, error)
	// InstallTZData activates a release of the time zone database on the whole cluster.
	InstallTZData(ctx context.Context, t rota.TZInstall) (rota.TZData, error)
	Verify(ctx context.Context) (rota.Verdict, error)
}

// SelfCore reports on the node that is asked: its figures, its events, the leader, and whether it may answer.
type SelfCore interface {
	// Recent returns the jobs that ended recently in each queue, as this node counted them.
	Recent(ctx context.Context) map[rota.QueueName]peer.QueueRecent
	// Stats returns this node's own figures, per second, or with coarse per minute.
	Stats(ctx context.Context, coarse bool) (peer.Stats, error)
	// Events calls send with the events that a filter selects, in order, the same on every node: up to the last one
	// acknowledged now, or with Follow until ctx ends. send runs on another goroutine, one call at a time. It may keep
	// the events, which are shared. A batch may be empty and report only how far the search went. Exhausted: send was
	// too slow; its last call may still be running, and the caller must end it (SPEC §12.3).
	Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error
	// Leader returns where the leader answers. It returns false while no leader is known, or when this node leads.
	Leader() (peer.NodeAddress, bool)
	// APIs returns the client addresses of the cluster's nodes, each as host:port.
	APIs() []string
	// Access returns the access rights as applied on this node; nil before it knows a cluster.
	Access() access.Table
	// Ready returns nil when the node knows a leader and has caught up, otherwise the reason.
	Ready() error
	// Vouched returns nil while a leader confirms this node's state, or did so recently. Otherwise it returns the
	// reason, with which streams end (SECURITY §5.4).
	Vouched() error
	// CaughtUp reports whether the node has applied everything that was acknowledged before its start, and a leader
	// confirms its state. Otherwise it may lack valid credentials.
	CaughtUp() bool
}

// WorkerSession is one connected worker, served from this node's replica.
type WorkerSession interface {
	Session() rota.Session
	// Await waits until there are notices for the worker. Only one goroutine may call it. Stale: the session is no
	// longer live.
	Await(ctx context.Context) error
	// Take returns the notices for the worker, nil for none: first every open lease of the worker, then what happened.
	Take() []peer.Notice
	// Do proposes a batch of commands and returns one answer per command, in order. The session fills in Worker and
	// Session of the commands.
	Do(ctx context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error)
	// Beat records a heartbeat and the time until the next one; 0 means 2 s. It returns the cluster clock after the
	// first entry that the leader stamped after receiving the beat (SPEC §3.9).
	Beat(ctx context.Context, next time.Duration) (peer.Beaten, error)
	// Graced reports whether the worker must be notified of each received beat, because it has had a lease with a grace
	// period.
	Graced() bool
	// Standing returns the state of the session. Stale: the session is over.
	Standing(ctx context.Context, opt peer.ReadOptions) (peer.Standing, error)
	// Offer records how many more leases a polling worker accepts while its poll waits; 0 withdraws the offer. It
	// returns once this node has applied it (SPEC §13.17).
	Offer(ctx context.Context, poll uint64, free int32, wait time.Duration) error
	// Logged accepts log output of the worker's handlers.
	Logged(logged []peer.Logged)
	// Bye retires the worker cleanly: it has no open lease and is shutting down.
	Bye(ctx context.Context) error
	// Close ends the stream's part of the session; the worker stays registered.
	Close()
}

// NodeCore is the node as other nodes need it (the node-to-node service).
type NodeCore interface {
	MemberCore
	LogCore
	HistoryCore
}

// MemberCore identifies this node, and judges other nodes that start, leave or become leader.
type MemberCore interface {
	// ClusterID returns the cluster's id, empty until known. Name returns the --cluster name.
	ClusterID() rota.ClusterID
	Name() string
	// Recorded rejects a node that the state does not record with this data directory. Every call but Introduce and
	// Inspect checks it first (SECURITY §1.4).
	Recorded(id rota.NodeID, identity string) error
	// Introduce judges a starting node: nil lets it start, Conflict is final, Unavailable means try again.
	Introduce(in peer.Introduction) error
	// RemoveHere and TransferHere are the leader's part of Core's calls. They fail with Unavailable where this node
	// does not lead, and are never forwarded again.
	RemoveHere(ctx context.Context, id rota.NodeID) error
	TransferHere(ctx context.Context, to rota.NodeID) (rota.NodeID, error)
}

// LogCore accepts commands, beats and queries about the log and the state.
type LogCore interface {
	// Forwarded runs commands that another node forwarded. It fails with Unavailable when this node does not lead, and
	// never forwards them again.
	Forwarded(ctx context.Context, commands []byte) ([]byte, error)
	Beats(ctx context.Context, beats []peer.Beat) (peer.BeatAnswer, error)
	Barrier(ctx context.Context) (rota.Index, error)
	Inspect(ctx context.Context, digestsAt []rota.Index) (peer.Inspection, error)
	CheckAt(ctx context.Context, index rota.Index) (rota.NodeVerdict, error)
	// SaveState writes this node's state, without history, for a node that rebuilds its own (SPEC §2.5).
	SaveState(ctx context.Context, w io.Writer) error
}

// HistoryCore serves ended jobs, events and logs to nodes that miss some (SPEC §10.5).
type HistoryCore interface {
	// ArchiveRange, ArchiveRecords and ListArchived serve this node's history to nodes that miss some of theirs (SPEC
	// §10.5).
	ArchiveRange(ctx context.Context, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice, error)
	// ArchiveSums compares another node's checksum of a span with this node's. Where they differ, each holds the sums
	// of the records.
	ArchiveSums(ctx context.Context, span peer.ArchiveSpan, sum []byte) (same bool, each []peer.ArchiveRecord,
		err error)
	ArchiveRecords(ctx context.Context, ids []rota.JobID) ([]peer.ArchiveRecord, error)
	ListArchived(ctx context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
	// EventRange returns events that this node holds itself.
	EventRange(ctx context.Context, r peer.EventRange) (peer.EventChunk, error)
	// LogHere returns this node's part of the log of an attempt that may be open.
	LogHere(lease rota.LeaseID, after uint64) peer.NodeLog
}
