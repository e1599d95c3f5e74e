package check

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
)

// OutcomeOf classifies an error: one that is neither ok nor the cluster's own answer is unknown.
func OutcomeOf(err error) (Outcome, string) {
	switch k := rota.KindOf(err); k {
	case rota.KindNone:
		return OK, ""
	case rota.KindUnavailable, rota.KindTimeout, rota.KindInternal:
		return Unknown, k.String()
	default:
		return Refused, k.String()
	}
}

// Done records how a call ended.
func (o Op) Done(rec *Recorder, err error) Op {
	o.Outcome, o.Kind = OutcomeOf(err)
	o.Return = rec.Now()
	if o.Outcome == Unknown {
		o.Return = never
	}
	if err != nil {
		o.Text = Short(err.Error())
	}
	return o
}

// Short returns at most the first 200 bytes of a text.
func Short(s string) string { return s[:min(len(s), 200)] }

// Tells records a node's report about its own wall clock. A node that does not answer reports only that.
func (s *Sample) Tells(n *rota.NodeStatus) {
	if n.State == "UNREACHABLE" || n.State == "STARTING" || n.State == "" {
		return
	}
	s.Told = append(s.Told, string(n.ID))
	if slices.ContainsFunc(n.Problems, func(p string) bool { return strings.HasPrefix(p, "wall clock is ") }) {
		s.Skewed = append(s.Skewed, string(n.ID))
	}
}

// Seen records how a job looked.
func (o *Op) Seen(job rota.Job) {
	o.State, o.Attempt, o.Output = job.State.String(), job.Attempt, string(job.Output)
	if job.Lease != nil {
		o.Token, o.Lease = job.Lease.Token, job.Lease.ID.String()
	}
}

// Outcome is how an operation ended for its caller.
type Outcome string

// The outcomes. An operation with outcome Unknown may have happened or not, or happen later.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// The operations. Start, Grant, End, Lost, Connect and Disconnect are observations of workers; the others are calls.
const (
	OpSubmit     = "submit"
	OpGet        = "get"
	OpGetMin     = "get_min_index"
	OpWait       = "wait"
	OpCancel     = "cancel"
	opRetry      = "retry"
	OpStart      = "start"
	OpGrant      = "grant"
	OpEnd        = "end"
	OpLost       = "lost"
	OpReport     = "report"
	OpForge      = "forge"
	OpRepeat     = "repeat"
	OpConnect    = "connect"
	OpDisconnect = "disconnect"
	// OpMerge is a submission that was answered with the job that holds its unique key: Output.
	OpMerge = "merge"
)

// Lie is the output that a hostile worker sends after its own, and OtherAfterUnknown what that repeat Did if no answer to
// its own came.
const (
	Lie               = "a lie"
	OtherAfterUnknown = "other after unknown"
)

// The operations on workflows; Flow names the workflow, and Did the node of a retry.
const (
	OpFlowSubmit = "workflow_submit"
	OpFlowCancel = "workflow_cancel"
	OpFlowRetry  = "workflow_retry"
	// OpSignal signals the gate Did; Output is the signal's id.
	OpSignal = "signal"
)

// The operations of an operator; Text names their object.
const (
	OpSuspend = "suspend"
	OpResume  = "resume"
	OpMode    = "mode"
	OpTenant  = "tenant"
	OpQueue   = "queue"
)

// How a handler ended its attempt.
const (
	DidComplete = "complete"
	DidFail     = "fail"
	DidNoRetry  = "no_retry"
	DidDecline  = "decline"
	DidSnooze   = "snooze"
	DidLater    = "retry_after"
	DidCancel   = "cancel"
	DidLose     = "lose"
)

// never is the return time of an operation without a known outcome.
const never = int64(1) << 62

// Op is one operation. Times are nanoseconds since the run began, on the host's single monotonic clock.
type Op struct {
	// Process is the process that made the call; a restarted process has another name.
	Process string `json:"p"`
	Func    string `json:"f"`
	Job     string `json:"j,omitempty"`
	Flow    string `json:"w,omitempty"`
	Node    string `json:"n,omitempty"`
	Invoke  int64  `json:"i"`
	Return  int64  `json:"r"`
	// Outcome and the answer.
	Outcome Outcome    `json:"o,omitempty"`
	State   string     `json:"s,omitempty"`
	Token   rota.Token `json:"t,omitzero"`
	Lease   string     `json:"l,omitempty"`
	Attempt int32      `json:"a,omitempty"`
	Existed bool       `json:"x,omitempty"`
	Index   uint64     `json:"ix,omitempty"`
	// Did is the result that the handler chose (report, end), or the kind of attempted forgery (forge).
	Did    string `json:"d,omitempty"`
	Output string `json:"v,omitempty"`
	Kind   string `json:"k,omitempty"`
	Text   string `json:"e,omitempty"`
	// Shown is the id of the token that the whole call presented, where it is known.
	Shown string `json:"b,omitempty"`
	// TTLMs is the time to live set by a submission.
	TTLMs int64 `json:"ttl,omitempty"`
	// Limit is the number of attempts that a submission set, 0 for the queue's default; WaitMs is how long a handler
	// put its job off (end).
	Limit  int64 `json:"lim,omitempty"`
	WaitMs int64 `json:"wait,omitempty"`
	// Logged is the number of lines that the handler logged (end).
	Logged int `json:"lg,omitempty"`
}

// Fault is one action of a nemesis.
type Fault struct {
	Nemesis string   `json:"nemesis"`
	Lane    int      `json:"lane"`
	Targets []string `json:"targets"`
	From    int64    `json:"from"`
	To      int64    `json:"to"`
	Note    string   `json:"note,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// The states of a process.
const (
	IsUp     = "up"
	IsDown   = "down"
	IsPaused = "paused"
	IsGone   = "gone"
)

// Change is a state change of a process or of a link.
type Change struct {
	At    int64  `json:"at"`
	Who   string `json:"who"`
	State string `json:"state"`
}

// Cut is a directed link that swallowed all packets for a time.
type Cut struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
}

// Sample is one node's report of the cluster at one moment.
type Sample struct {
	At     int64  `json:"at"`
	Asked  int64  `json:"asked"`
	Node   string `json:"node"`
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term"`
	Index  uint64 `json:"index"`
	Clock  int64  `json:"clock"`
	// Date and Wall are the cluster's date and the host's own, 0 where not kept; Skewed is the number of nodes that
	// report that their wall clock is off, out of those that Told anything.
	Date   int64    `json:"date,omitempty"`
	Wall   int64    `json:"wall,omitempty"`
	Skewed []string `json:"skewed,omitempty"`
	Told   []string `json:"told,omitempty"`
	// Digests are (node, index, digest) of one moment on each node.
	Digests []NodeDigest `json:"digests,omitempty"`
}

// NodeDigest is a node's state digest at an index.
type NodeDigest struct {
	Node   string `json:"node"`
	Index  uint64 `json:"index"`
	Digest string `json:"digest"`
}

// Crash is a node that ended without a request to end.
type Crash struct {
	At   int64  `json:"at"`
	Node string `json:"node"`
	Exit string `json:"exit"`
	Log  string `json:"log"`
}

// FinalJob is a job as the cluster shows it at the end.
type FinalJob struct {
	ID       string         `json:"id"`
	Queue    string         `json:"queue"`
	State    string         `json:"state"`
	Reason   string         `json:"reason,omitempty"`
	Output   string         `json:"output,omitempty"`
	Attempts []FinalAttempt `json:"attempts,omitempty"`
}

// FinalAttempt is one of its attempts.
type FinalAttempt struct {
	Number int32      `json:"n"`
	Worker string     `json:"w"`
	Lease  string     `json:"l"`
	Token  rota.Token `json:"t"`
	End    string     `json:"end,omitempty"`
}

// QueueFacts are the facts about a queue that checkers need.
type QueueFacts struct {
	LeaseMs    int64 `json:"lease_ms"`
	AttemptMax int64 `json:"attempt_max"`
	// TTLMs is the time to live of its jobs where a run may see it pass; 0 for none.
	TTLMs int64 `json:"ttl_ms,omitempty"`
}

// FlowFacts describe a submitted workflow, as far as checkers need it.
type FlowFacts struct {
	ID        string      `json:"id"`
	OnFailure string      `json:"on_failure"`
	Nodes     []NodeFacts `json:"nodes"`
}

// NodeFacts is a node of a workflow.
type NodeFacts struct {
	ID      string   `json:"id"`
	Parents []string `json:"parents,omitempty"`
	// Gate marks a node without a job; with TimeoutMs it waits no longer than that, and then completes if OnTimeout is
	// complete.
	Gate      bool   `json:"gate,omitempty"`
	TimeoutMs int64  `json:"timeout_ms,omitempty"`
	OnTimeout string `json:"on_timeout,omitempty"`
	// Grows are the nodes that it adds when it completes; Detached means that no other node waits for them.
	Grows    []NodeFacts `json:"grows,omitempty"`
	Detached bool        `json:"detached,omitempty"`
}

// FinalFlow is a workflow as the first node shows it at the end; NodeShows records where other nodes show it
// differently.
type FinalFlow struct {
	ID    string            `json:"id"`
	State string            `json:"state"`
	Runs  int32             `json:"runs"`
	Nodes map[string]string `json:"nodes"`
}

// Liveness is the last phase: milliseconds from healing; −1 is never.
type Liveness struct {
	HealedAt int64 `json:"healed_at"`
	LeaderMs int64 `json:"leader_ms"`
	WriteMs  int64 `json:"write_ms"`
	NodesMs  int64 `json:"nodes_ms"`
	DrainMs  int64 `json:"drain_ms"`
	Left     int64 `json:"left"`
	// Listed reports whether the final jobs are all jobs.
	Listed bool `json:"listed"`
	// Text describes what did not happen in time.
	Text string `json:"text,omitempty"`
}

// History is everything that a run leaves behind: enough to judge it again.
type History struct {
	Version string `json:"version"`
	// Versions are the versions of the programs in the run.
	Versions  map[string]string     `json:"versions,omitempty"`
	Seed      uint64                `json:"seed"`
	Nodes     int                   `json:"nodes"`
	Network   string                `json:"network"`
	Command   string                `json:"command"`
	Date      time.Time             `json:"date"`
	FaultsEnd int64                 `json:"faults_end"`
	End       int64                 `json:"end"`
	Queues    map[string]QueueFacts `json:"queues"`
	Ops       []Op                  `json:"ops"`
	Faults    []Fault               `json:"faults"`
	// LeftOut names the faults that this network cannot produce.
	LeftOut string `json:"left_out,omitempty"`
	// Nemeses are the nemeses that could act.
	Nemeses  []string    `json:"nemeses,omitempty"`
	Changes  []Change    `json:"changes"`
	Cuts     []Cut       `json:"cuts"`
	BadLinks []BadLink   `json:"bad_links,omitempty"`
	Walls    []WallShift `json:"walls,omitempty"`
	Samples  []Sample    `json:"samples"`
	Crashes  []Crash     `json:"crashes"`
	// Revocations are the revocations of users' tokens.
	Revocations []Revocation `json:"revocations,omitempty"`
	// Stuck are nodes that did not end when asked to.
	Stuck []Crash `json:"stuck,omitempty"`
	// NoDisks gives the reason why no disk could be made to fail.
	NoDisks  string     `json:"no_disks,omitempty"`
	Damaged  []string   `json:"damaged,omitempty"`
	Final    []FinalJob `json:"final"`
	Liveness Liveness   `json:"liveness"`
	// Weights are the sizes that nodes had before the load and at the end; Logs compare the nodes' logs with each
	// other.
	Weights []Weight      `json:"weights,omitempty"`
	Logs    []LogOf       `json:"logs,omitempty"`
	Verdict *rota.Verdict `json:"verdict"`
	// Events are the longest of the Streams that are complete readings.
	Events  []SeenEvent `json:"events,omitempty"`
	Streams []Stream    `json:"streams,omitempty"`
	Shown   []NodeShows `json:"shown,omitempty"`
	Audits  []AuditOf   `json:"audits,omitempty"`
	// Flows are the submitted workflows, FinalFlows those that exist at the end.
	Flows      []FlowFacts `json:"flows,omitempty"`
	FinalFlows []FinalFlow `json:"final_flows,omitempty"`
	// Keyed are the keys that jobs were submitted with, Budgets the budgets that limit them, Schedules the schedules that were set.
	Keyed     []KeyFacts      `json:"keyed,omitempty"`
	Budgets   []BudgetFacts   `json:"budgets,omitempty"`
	Schedules []ScheduleFacts `json:"schedules,omitempty"`
	// Rooms is the maximum number of leases of each worker, by its id.
	Rooms map[string]int `json:"rooms,omitempty"`
	// Webhooks follow the schedules.
	Webhooks []WebhookFacts `json:"webhooks,omitempty"`
	// Batches, Uniques and Plans record what their users did; JobLogs are the readings of attempts' logs at the end.
	Batches []BatchFacts  `json:"batches,omitempty"`
	Uniques []UniqueFacts `json:"uniques,omitempty"`
	Plans   []PlanFacts   `json:"plans,omitempty"`
	JobLogs []LogRead     `json:"job_logs,omitempty"`
	// After is nil where the run has no aftermath.
	After *Aftermath `json:"after,omitempty"`
	Notes []string   `json:"notes"`
}

// Recorder collects a history from many goroutines.
type Recorder struct {
	Base int64
	mu   sync.Mutex
	H    History
	// limit is the maximum number of operations kept: beyond it the run ends early.
	limit int
	// revoked is the time at which each token's revocation was acknowledged.
	revoked map[string]int64
}

// NewRecorder returns a recorder whose time counts from base, and which keeps at most limit operations.
func NewRecorder(base int64, limit int) *Recorder { return &Recorder{Base: base, limit: limit} }

// Now returns the time since the run began.
func (r *Recorder) Now() int64 { return Monotonic() - r.Base }

// Add stores operations.
func (r *Recorder) Add(ops ...Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.H.Ops = append(r.H.Ops, ops...)
}

// Full reports whether the limit of operations is reached.
func (r *Recorder) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.H.Ops) >= r.limit
}

// With changes the history while it holds the lock.
func (r *Recorder) With(f func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.H)
}

// Changed records a process's new state.
func (r *Recorder) Changed(who, state string) {
	at := r.Now()
	r.With(func(h *History) { h.Changes = append(h.Changes, Change{at, who, state}) })
}

// Note adds a sentence to the report.
func (r *Recorder) Note(format string, args ...any) {
	text := fmt.Sprintf("%7.1fs ", float64(r.Now())/1e9) + fmt.Sprintf(format, args...)
	r.With(func(h *History) {
		if len(h.Notes) < 500 {
			h.Notes = append(h.Notes, text)
		}
	})
}

// SaveHistory writes the history compressed.
func SaveHistory(path string, h *History) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	z := gzip.NewWriter(f)
	if err := json.NewEncoder(z).Encode(h); err != nil {
		return err
	}
	return z.Close()
}

// LoadHistory is the inverse of SaveHistory.
func LoadHistory(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	h := &History{}
	if err := json.NewDecoder(z).Decode(h); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return h, nil
}
