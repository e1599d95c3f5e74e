package transport

import (
	"context"
	"io"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// Core is the node as the protocol needs it, in words of package rota. The
// binary puts a cluster.Node here; this package never knows that one.
//
// Every method may be called on any node. Writes are handed to the leader by
// the core, once; while there is none they wait up to ctx's deadline, then end
// with kind Unavailable and a delay (SPEC §13.1). All errors are *rota.Error.
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
	AuthCore
	SessionCore
	ClusterCore
	SelfCore
}

// JobCore serves jobs.
type JobCore interface {
	// Submit admits jobs; the outcome of each stands at its place. err is for
	// the whole batch only: no outcome is known, submit again with the same ids.
	Submit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error)
	// Job reads one job: NotFound where nothing is known of the id.
	Job(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error)
	// Jobs reads one page.
	Jobs(ctx context.Context, f rota.JobFilter, opt peer.ReadOptions) (rota.JobPage, rota.ReadAt, error)
	// AwaitJobs calls done for each job once it is terminal, in the order they
	// end, and returns nil after the last. A job that is not known ends it with
	// NotFound. It reads this node's replica, so it survives failovers.
	AwaitJobs(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error
	// JobLog reads what an attempt logged: NotFound(attempt) where there is no such attempt,
	// NotFound(lease) where nothing is kept of one that has ended (SPEC §22.3).
	JobLog(ctx context.Context, of rota.LogOf, opt peer.ReadOptions) (rota.AttemptLog, rota.ReadAt, error)
	Cancel(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error)
	Retry(ctx context.Context, retries []rota.JobRetry) ([]rota.JobOutcome, error)
	// DeleteJobs forgets jobs that have ended (SPEC §21.3).
	DeleteJobs(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error)
	// ChangeJob changes a job that waits (SPEC §21.2).
	ChangeJob(ctx context.Context, change rota.JobChange) (rota.JobOutcome, error)
	// Interrupt ends the attempt that each job is in, counted or not, and has it tried again (SPEC §21.9).
	Interrupt(ctx context.Context, ids []rota.JobID, counted bool) ([]rota.JobOutcome, error)
	// RunNow queues DELAYED jobs before their time (SPEC §21.10).
	RunNow(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error)
	// ReportProof takes a verifier's word on a completed job (SPEC §9.5).
	ReportProof(ctx context.Context, report rota.ProofReport) (rota.JobOutcome, error)
}

// WhyCore explains decisions, past ones too, and forecasts starts.
type WhyCore interface {
	// Why explains a job, now or in the past: OutOfRange where that is no longer kept, or to
	// come, Exhausted where others look at the past.
	Why(ctx context.Context, id rota.JobID, q rota.WhyQuery, opt peer.ReadOptions) (rota.Explanation, rota.ReadAt, error)
	// ETA forecasts when a job starts: Exhausted where others are forecast for.
	ETA(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.ETA, rota.ReadAt, error)
	// Past says what a look at a state of the past has to replay: OutOfRange as Why.
	Past(ctx context.Context, q rota.WhyQuery) (rota.Past, error)
	// Round computes a round again on the state at its height, and compares it with the log's
	// (SPEC §2.4): NotFound where the log has none, OutOfRange and Exhausted as Why.
	Round(ctx context.Context, epoch uint64, height rota.Index) (peer.Round, rota.ReadAt, error)
}

// WorkerCore serves workers and what operators do with them.
type WorkerCore interface {
	Workers(ctx context.Context, opt peer.ReadOptions) ([]rota.Worker, rota.ReadAt, error)
	Worker(ctx context.Context, id rota.WorkerID, opt peer.ReadOptions) (rota.Worker, rota.ReadAt, error)
	// The four changes of a worker's status that an operator makes (SPEC §6.3).
	DrainWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	SuspendWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	ResumeWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	RetireWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error)
	// WorkerGone takes a guard's word that a worker's process has died and that nothing
	// of it runs any more: its leases end at once (SPEC §16.7). Stale: the session is
	// over; Denied: the secret is another.
	WorkerGone(ctx context.Context, id rota.WorkerID, session rota.Session, secret []byte) error
	// OpenWorker registers a worker, or takes its live session up again, and
	// gives the session that its stream is served from. The attestation is nil
	// where it shows none; one that does not hold registers nothing (SPEC §6.5).
	OpenWorker(ctx context.Context, spec rota.WorkerSpec, secret []byte, takeover bool,
		attestation *rota.Attestation, link peer.WorkerLink) (WorkerSession, error)
	// AttachWorker takes up the live session of a worker that has no stream, for one call and
	// without an entry: NotFound, Denied where the secret or the caller is another.
	AttachWorker(ctx context.Context, id rota.WorkerID, secret []byte) (WorkerSession, error)
	DeleteWorker(ctx context.Context, id rota.WorkerID) error
}

// QueueCore serves queues and their policies.
type QueueCore interface {
	Queues(ctx context.Context, opt peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error)
	Queue(ctx context.Context, name rota.QueueName, opt peer.ReadOptions) (rota.Queue, rota.ReadAt, error)
	// Lanes reads the largest lanes of a queue, at most most.
	Lanes(ctx context.Context, query peer.LanesQuery, opt peer.ReadOptions) (peer.Lanes, rota.ReadAt, error)
	// DeleteQueue, DeleteTenant and DeleteWorker forget what nothing names; one that is not
	// there is no error (SPEC §21.4).
	DeleteQueue(ctx context.Context, name, drainTo rota.QueueName) (left uint64, err error)
	SetQueue(ctx context.Context, name rota.QueueName, preset string, set []rota.Setting) (rota.Queue, error)
	// PreviewQueue, PreviewTenant and PreviewCluster return what setting would return, and what it
	// would change; they store nothing.
	PreviewQueue(ctx context.Context, name rota.QueueName, preset string, set []rota.Setting) (rota.Queue, error)
}

// TenantCore serves tenants and their limits.
type TenantCore interface {
	Tenants(ctx context.Context, opt peer.ReadOptions) ([]rota.Tenant, rota.ReadAt, error)
	// Tenant reads any tenant: one that nobody set has the default limits.
	Tenant(ctx context.Context, id rota.TenantID, opt peer.ReadOptions) (rota.Tenant, rota.ReadAt, error)
	SetTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error)
	DeleteTenant(ctx context.Context, id rota.TenantID) error
	PreviewTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error)
}

// WorkflowCore serves workflows.
type WorkflowCore interface {
	// SubmitWorkflow admits a workflow, all of it or nothing; the same id again is
	// answered with the workflow that is known (SPEC §11.1).
	SubmitWorkflow(ctx context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error)
	// Workflow reads a workflow, with its nodes, critical path and estimates or
	// without; Workflows one page of them, without.
	Workflow(ctx context.Context, id rota.WorkflowID, nodes bool, opt peer.ReadOptions) (rota.Workflow, rota.ReadAt, error)
	Workflows(ctx context.Context, f rota.WorkflowFilter, opt peer.ReadOptions) (rota.WorkflowPage, rota.ReadAt, error)
	// AwaitWorkflow returns a workflow, without nodes, once it is over.
	AwaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error)
	CancelWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error)
	// SignalWorkflow says somebody's word to a gate.
	SignalWorkflow(ctx context.Context, signal rota.Signal) (rota.Signalled, error)
	// RetryWorkflow runs again what did not complete: all, or where from is given that
	// node, its descendants, and what they wait for (SPEC §11.3). runs says which run
	// it follows, so that it is made once however often it is asked for; 0 is the run
	// that is read when the call comes in.
	RetryWorkflow(ctx context.Context, id rota.WorkflowID, from string, runs int32) (rota.Workflow, error)
	// ParentOutputs calls send for each parent of a node's job, in the order of their
	// numbers (SPEC §11.2).
	ParentOutputs(ctx context.Context, job rota.JobID, send func(rota.ParentOutput) error) error
}

// BatchCore serves batches (SPEC §24).
type BatchCore interface {
	// OpenBatch and SealBatch are what changes a batch (SPEC §24); AwaitBatch returns one once it
	// has ended.
	OpenBatch(ctx context.Context, spec rota.BatchSpec) (rota.Batch, error)
	SealBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error)
	Batch(ctx context.Context, id rota.BatchID, opt peer.ReadOptions) (rota.Batch, rota.ReadAt, error)
	Batches(ctx context.Context, by rota.Principal, after rota.BatchID, limit int, opt peer.ReadOptions) (peer.BatchPage, rota.ReadAt, error)
	AwaitBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error)
}

// ScheduleCore serves schedules (SPEC §17).
type ScheduleCore interface {
	Schedules(ctx context.Context, opt peer.ReadOptions) ([]rota.Schedule, rota.ReadAt, error)
	Schedule(ctx context.Context, name rota.ScheduleName, opt peer.ReadOptions) (rota.Schedule, rota.ReadAt, error)
	// SetSchedule creates a schedule, or replaces what one says (SPEC §17.1).
	SetSchedule(ctx context.Context, spec rota.ScheduleSpec) (rota.Schedule, error)
	PauseSchedule(ctx context.Context, name rota.ScheduleName, reason string) (rota.Schedule, error)
	ResumeSchedule(ctx context.Context, name rota.ScheduleName, catchUp bool) (rota.Schedule, error)
	TriggerSchedule(ctx context.Context, name rota.ScheduleName, id string) (rota.JobOutcome, error)
	// BackfillSchedule takes the dates of a time that has passed, and says how many it has.
	BackfillSchedule(ctx context.Context, name rota.ScheduleName, from, until rota.Date, overlap rota.Overlap) (int, rota.Schedule, error)
	DeleteSchedule(ctx context.Context, name rota.ScheduleName) error
	// NextDates reckons the dates after one, 0 for those that are not decided yet, and says by which release of the time zones.
	NextDates(ctx context.Context, name rota.ScheduleName, after rota.Date, most int, opt peer.ReadOptions) ([]rota.Date, string, rota.ReadAt, error)
	// DatesOf calculates the first dates after one of a schedule that is not set yet.
	DatesOf(times *rota.ScheduleTimes, after rota.Date, most int) ([]rota.Date, error)
}

// WebhookCore serves webhooks (SPEC §13.14).
type WebhookCore interface {
	// SetWebhook creates a webhook, or replaces what one says (SPEC §13.14).
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
	// PreviewPlan changes nothing.
	PreviewPlan(ctx context.Context, spec rota.PlanSpec) (rota.PlanPreview, error)
	CancelPlan(ctx context.Context, id rota.PlanID, reason string) (rota.Plan, error)
}

// KeyCore serves keys and their rules (SPEC §19).
type KeyCore interface {
	// SetKeyRule, DeleteKeyRule and SkipKey are about what the jobs of keys are held to, Key about
	// what one of a tenant counts now (SPEC §19).
	SetKeyRule(ctx context.Context, r rota.KeyRule) (rota.KeyRule, error)
	DeleteKeyRule(ctx context.Context, queue rota.QueueName, name, value string) error
	SkipKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string, job rota.JobID) error
	KeyRules(ctx context.Context, opt peer.ReadOptions) ([]rota.KeyRule, rota.ReadAt, error)
	Key(ctx context.Context, tenant rota.TenantID, key string, opt peer.ReadOptions) ([]rota.KeyState, rota.ReadAt, error)
	// KeyStates reads a page of the keys that are counted, the most used first, and where the next begins.
	KeyStates(ctx context.Context, f rota.KeyFilter, opt peer.ReadOptions) ([]rota.KeyState, string, rota.ReadAt, error)
}

// AuthCore serves access tokens, roles and blocked certificates.
type AuthCore interface {
	// CreateToken makes a token known by the hash of its secret: Conflict where its id is
	// another's, or was revoked. AccessTokens lists the tokens, revoked ones among them.
	CreateToken(ctx context.Context, t rota.AccessToken, hash [32]byte) (rota.AccessToken, error)
	// InitAuth makes the first token, once, or by a reset another one; callers without one may do
	// nothing from the first on.
	InitAuth(ctx context.Context, t rota.AccessToken, hash [32]byte, reset bool) (rota.AccessToken, error)
	AccessTokens(ctx context.Context, opt peer.ReadOptions) ([]rota.AccessToken, rota.ReadAt, error)
	RevokeToken(ctx context.Context, id string) error
	SetRole(ctx context.Context, role rota.Role) (rota.Role, error)
	Roles(ctx context.Context, opt peer.ReadOptions) ([]rota.Role, rota.ReadAt, error)
	DeleteRole(ctx context.Context, name string) error
	// SetBlock refuses the certificates of a role and a name, or takes them again.
	SetBlock(ctx context.Context, role, name string, blocked bool) error
	Blocks(ctx context.Context, opt peer.ReadOptions) ([]rota.Block, rota.ReadAt, error)
	// SetAnonymous says which roles callers without a credential have.
	SetAnonymous(ctx context.Context, roles []string) error
}

// SessionCore serves identity providers and browser sessions.
type SessionCore interface {
	// SetIssuer takes the tokens of an identity provider. Exchange makes an access token for one
	// that was verified.
	SetIssuer(ctx context.Context, i rota.Issuer) (rota.Issuer, error)
	Issuers(ctx context.Context, opt peer.ReadOptions) ([]rota.Issuer, rota.ReadAt, error)
	DeleteIssuer(ctx context.Context, url string) error
	Exchange(ctx context.Context, s access.SignIn) (rota.AccessToken, error)
	// OpenSession makes a browser session of the caller, which ends at until at the latest, 0 for no
	// such date; ClaimSession gives that of a link its secret, EndSession ends one.
	OpenSession(ctx context.Context, id string, hash [32]byte, link bool, until rota.Date) (rota.AccessToken, error)
	ClaimSession(ctx context.Context, id string, hash [32]byte) (rota.AccessToken, error)
	EndSession(ctx context.Context, id string) error
}

// ClusterCore serves the cluster itself: settings, mode, members, backups.
type ClusterCore interface {
	// SetCluster changes the cluster's own settings.
	SetCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error)
	PreviewCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error)
	// Mode and SetMode are about what the cluster admits (SPEC §4.3).
	Mode(ctx context.Context, opt peer.ReadOptions) (rota.ModeStatus, rota.ReadAt, error)
	SetMode(ctx context.Context, mode rota.ClusterMode, reason string) (rota.ModeStatus, error)
	Status(ctx context.Context) (rota.ClusterStatus, error)
	Peers(ctx context.Context) ([]rota.RaftPeer, error)
	// Views gathers what each node finds of each other one.
	Views(ctx context.Context) ([]peer.NodeViews, error)
	TransferLeadership(ctx context.Context, to rota.NodeID) (rota.NodeID, error)
	RemovePeer(ctx context.Context, id rota.NodeID) error
	// Leave hands over, leaves the configuration and makes the process stop
	// after the answer is out.
	Leave(ctx context.Context) error
	// SaveSnapshot writes an online backup of this node's state (SPEC §13.5).
	SaveSnapshot(ctx context.Context, how peer.ReadOptions, w io.Writer) error
	// StoreBackup stores a backup where --backup-to says; the leader only.
	StoreBackup(ctx context.Context) (rota.StoredBackup, error)
	// InstallTZData puts a release of the time zone database into force on the whole cluster.
	InstallTZData(ctx context.Context, t rota.TZInstall) (rota.TZData, error)
	Verify(ctx context.Context) (rota.Verdict, error)
}

// SelfCore reports what the asked node itself has: its figures, its events, who leads, and whether it may answer.
type SelfCore interface {
	// Recent is what ended lately in each queue, as this node counted it.
	Recent(ctx context.Context) map[rota.QueueName]peer.QueueRecent
	// Stats are this node's own figures, of each second or coarse of each minute.
	Stats(ctx context.Context, coarse bool) (peer.Stats, error)
	// Events calls send with the events that a filter selects, in their order, the
	// same on every node: up to what is acknowledged now, or with Follow until ctx
	// ends. send is called from another goroutine, once at a time, and may keep the
	// events, which others share. A batch may have none, and tell only how far was
	// looked. Exhausted: send took too long; it may still be in
	// its last call, which the caller ends (SPEC §12.3).
	Events(ctx context.Context, filter rota.EventFilter, send func(peer.EventBatch) error) error
	// Leader returns where the leader answers; false while none is known, or this node
	// leads itself.
	Leader() (peer.NodeAddress, bool)
	// APIs returns where the cluster's nodes answer clients, H:P each.
	APIs() []string
	// Access is who may do what, as this node has applied it; nil before it knows a cluster.
	Access() access.Table
	// Ready is nil when the node knows a leader and has caught up; else why not.
	Ready() error
	// Vouched is nil while a leader stands, or stood until lately, for what this node holds; else
	// why not, for streams to end with (SECURITY §5.4).
	Vouched() error
	// CaughtUp reports whether the node has applied, since its start, all that was acknowledged
	// before, and a leader stands for what it holds: else it may lack credentials that count.
	CaughtUp() bool
}

// WorkerSession is one connected worker, served from this node's replica.
type WorkerSession interface {
	Session() rota.Session
	// Await waits until there are notices for the worker. It is called by one
	// goroutine. Kind Stale: the session is no longer live.
	Await(ctx context.Context) error
	// Take returns the notices for the worker, nil for none: first every lease that the
	// worker has open, then what happened.
	Take() []peer.Notice
	// Do proposes a batch of verbs; answers stand at their places. Worker and
	// Session of the commands are filled in by the session.
	Do(ctx context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error)
	// Beat reports life, and in how long the next beat comes, 0 for 2 s. It gives the cluster clock after the
	// first entry that the leader stamped after the beat reached it (SPEC §3.9).
	Beat(ctx context.Context, next time.Duration) (peer.Beaten, error)
	// Graced reports whether the worker must be notified of each beat that was received, since it
	// has had a lease with a grace.
	Graced() bool
	// Standing tells how the session stands. Kind Stale: it is over.
	Standing(ctx context.Context, opt peer.ReadOptions) (peer.Standing, error)
	// Offer says that a worker that polls takes so many more leases while a poll waits, or
	// withdraws that with 0; it returns once this node has it (SPEC §13.17).
	Offer(ctx context.Context, poll uint64, free int32, wait time.Duration) error
	// Logged takes what the worker's handlers logged.
	Logged(logged []peer.Logged)
	// Bye retires the worker cleanly: it has no open lease and is going.
	Bye(ctx context.Context) error
	// Close ends the stream's part; the worker stays registered.
	Close()
}

// NodeCore is the node as other nodes need it (the node-to-node service).
type NodeCore interface {
	MemberCore
	LogCore
	HistoryCore
}

// MemberCore says who this node is, and judges others that start, leave or take the lead.
type MemberCore interface {
	// ClusterID is empty until known; Name is the --cluster name.
	ClusterID() rota.ClusterID
	Name() string
	// Recorded refuses a node that the state does not record with this data directory: every
	// call but Introduce and Inspect asks it first (SECURITY §1.4).
	Recorded(id rota.NodeID, identity string) error
	// Introduce judges a starting node: nil lets it start, Conflict never,
	// Unavailable says to ask again.
	Introduce(in peer.Introduction) error
	// RemoveHere and TransferHere are the leader's part of Core's calls: refused
	// with Unavailable where this node does not lead, never relayed again.
	RemoveHere(ctx context.Context, id rota.NodeID) error
	TransferHere(ctx context.Context, to rota.NodeID) (rota.NodeID, error)
}

// LogCore takes commands, beats and questions about the log and the state.
type LogCore interface {
	// Forwarded takes commands that another node forwarded: refused with
	// Unavailable when this node does not lead, never forwarded again.
	Forwarded(ctx context.Context, commands []byte) ([]byte, error)
	Beats(ctx context.Context, beats []peer.Beat) (peer.BeatAnswer, error)
	Barrier(ctx context.Context) (rota.Index, error)
	Inspect(ctx context.Context, digestsAt []rota.Index) (peer.Inspection, error)
	CheckAt(ctx context.Context, index rota.Index) (rota.NodeVerdict, error)
	// SaveState writes this node's state, without history, for one that rebuilds its
	// own (SPEC §2.5).
	SaveState(ctx context.Context, w io.Writer) error
}

// HistoryCore serves ended jobs, events and logs to nodes that lack some (SPEC §10.5).
type HistoryCore interface {
	// ArchiveRange, ArchiveRecords and ListArchived serve this node's history to
	// others that lack some of theirs (SPEC §10.5).
	ArchiveRange(ctx context.Context, span peer.ArchiveSpan, maxBytes int64) (peer.ArchiveSlice, error)
	// ArchiveSums compares another node's sum of a span with this node's; each are the records' where they differ.
	ArchiveSums(ctx context.Context, span peer.ArchiveSpan, sum []byte) (same bool, each []peer.ArchiveRecord, err error)
	ArchiveRecords(ctx context.Context, ids []rota.JobID) ([]peer.ArchiveRecord, error)
	ListArchived(ctx context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error)
	// EventRange tells events that this node has itself.
	EventRange(ctx context.Context, r peer.EventRange) (peer.EventChunk, error)
	// LogHere returns what this node has of the log of an attempt that may be open.
	LogHere(lease rota.LeaseID, after uint64) peer.NodeLog
}
