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

// OutcomeOf sorts an error: what is neither ok nor the cluster's own word is
// unknown.
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

// Done fills in how a call ended.
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

// Short returns the beginning of a text: 200 bytes at most.
func Short(s string) string { return s[:min(len(s), 200)] }

// Tells keeps what a node says of its own wall clock. One that does not answer says
// only that.
func (s *Sample) Tells(n *rota.NodeStatus) {
	if n.State == "UNREACHABLE" || n.State == "STARTING" || n.State == "" {
		return
	}
	s.Told = append(s.Told, string(n.ID))
	if slices.ContainsFunc(n.Problems, func(p string) bool { return strings.HasPrefix(p, "wall clock is ") }) {
		s.Skewed = append(s.Skewed, string(n.ID))
	}
}

// Seen fills in what a job looked like.
func (o *Op) Seen(job rota.Job) {
	o.State, o.Attempt, o.Output = job.State.String(), job.Attempt, string(job.Output)
	if job.Lease != nil {
		o.Token, o.Lease = job.Lease.Token, job.Lease.ID.String()
	}
}

// Outcome is how an operation ended for its caller.
type Outcome string

// The outcomes. Unknown may have happened or not, or happen later.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// The operations. Start, Grant, End, Lost, Connect and Disconnect are what
// workers saw; the others are calls.
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
	// OpMerge is a submission that was answered by the job that holds its unique key: Output.
	OpMerge = "merge"
)

// What is asked of workflows; Flow names it, and Did the node of a retry.
const (
	OpFlowSubmit = "workflow_submit"
	OpFlowCancel = "workflow_cancel"
	OpFlowRetry  = "workflow_retry"
	// OpSignal signals the gate Did; Output is the signal's id.
	OpSignal = "signal"
)

// What an operator does; Text names what it is done to.
const (
	OpSuspend = "suspend"
	OpResume  = "resume"
	OpMode    = "mode"
	OpTenant  = "tenant"
	OpQueue   = "queue"
)

// What a handler made of its attempt.
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

// Op is one operation. Times are nanoseconds since the run began, on the one
// clock of the host.
type Op struct {
	// Process is who did it; a restarted process has another name.
	Process string `json:"p"`
	Func    string `json:"f"`
	Job     string `json:"j,omitempty"`
	Flow    string `json:"w,omitempty"`
	Node    string `json:"n,omitempty"`
	Invoke  int64  `json:"i"`
	Return  int64  `json:"r"`
	// Outcome and what was answered.
	Outcome Outcome    `json:"o,omitempty"`
	State   string     `json:"s,omitempty"`
	Token   rota.Token `json:"t,omitzero"`
	Lease   string     `json:"l,omitempty"`
	Attempt int32      `json:"a,omitempty"`
	Existed bool       `json:"x,omitempty"`
	Index   uint64     `json:"ix,omitempty"`
	// Did is what the handler made of it (report, end), or what was tried (forge).
	Did    string `json:"d,omitempty"`
	Output string `json:"v,omitempty"`
	Kind   string `json:"k,omitempty"`
	Text   string `json:"e,omitempty"`
	// Shown is the id of the token that all of the call showed, where that is known.
	Shown string `json:"b,omitempty"`
	// TTLMs is the time to live that a submission gave.
	TTLMs int64 `json:"ttl,omitempty"`
	// Limit is how many attempts a submission gave its job, 0 for as many as its queue does; WaitMs is
	// for how long a handler put its job off (end).
	Limit  int64 `json:"lim,omitempty"`
	WaitMs int64 `json:"wait,omitempty"`
	// Logged is how many lines the handler logged (end).
	Logged int `json:"lg,omitempty"`
}

// Fault is one strike of a nemesis.
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

// Change is a process that changed its state, or a link that did.
type Change struct {
	At    int64  `json:"at"`
	Who   string `json:"who"`
	State string `json:"state"`
}

// Cut is a directed link that swallowed everything for a time.
type Cut struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
}

// Sample is one node's word on one moment of the cluster.
type Sample struct {
	At     int64  `json:"at"`
	Asked  int64  `json:"asked"`
	Node   string `json:"node"`
	Leader string `json:"leader,omitempty"`
	Term   uint64 `json:"term"`
	Index  uint64 `json:"index"`
	Clock  int64  `json:"clock"`
	// Date and Wall are the cluster's date and the host's own, 0 where not kept; Skewed
	// are the nodes that say that their wall clock is off, of those that Told anything.
	Date   int64    `json:"date,omitempty"`
	Wall   int64    `json:"wall,omitempty"`
	Skewed []string `json:"skewed,omitempty"`
	Told   []string `json:"told,omitempty"`
	// Digests are (node, index, digest) of one moment on each node.
	Digests []NodeDigest `json:"digests,omitempty"`
}

// NodeDigest is the digest that a node has at an index.
type NodeDigest struct {
	Node   string `json:"node"`
	Index  uint64 `json:"index"`
	Digest string `json:"digest"`
}

// Crash is a node that ended without being told to.
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

// QueueFacts are what checkers must know of a queue.
type QueueFacts struct {
	LeaseMs    int64 `json:"lease_ms"`
	AttemptMax int64 `json:"attempt_max"`
	// TTLMs is its jobs' time to live where a run may see it pass; 0 for none.
	TTLMs int64 `json:"ttl_ms,omitempty"`
}

// FlowFacts are what was submitted of a workflow, as far as checkers must know it.
type FlowFacts struct {
	ID        string      `json:"id"`
	OnFailure string      `json:"on_failure"`
	Nodes     []NodeFacts `json:"nodes"`
}

// NodeFacts is a node of it.
type NodeFacts struct {
	ID      string   `json:"id"`
	Parents []string `json:"parents,omitempty"`
	// Gate says that it has no job; with TimeoutMs it waits no longer, and completes then if
	// OnTimeout is complete.
	Gate      bool   `json:"gate,omitempty"`
	TimeoutMs int64  `json:"timeout_ms,omitempty"`
	OnTimeout string `json:"on_timeout,omitempty"`
	// Grows are the nodes that it adds as it completes; Detached says that nothing waits for them.
	Grows    []NodeFacts `json:"grows,omitempty"`
	Detached bool        `json:"detached,omitempty"`
}

// FinalFlow is a workflow as the first node shows it at the end; NodeShows tells
// where others show it otherwise.
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
	// Listed says that the final jobs are the whole of them.
	Listed bool `json:"listed"`
	// Text says more of what did not come.
	Text string `json:"text,omitempty"`
}

// History is all that a run leaves behind: enough to judge it again.
type History struct {
	Version string `json:"version"`
	// Versions are those of what was run.
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
	// LeftOut says which faults this network cannot have.
	LeftOut string `json:"left_out,omitempty"`
	// Nemeses are those that could strike.
	Nemeses  []string    `json:"nemeses,omitempty"`
	Changes  []Change    `json:"changes"`
	Cuts     []Cut       `json:"cuts"`
	BadLinks []BadLink   `json:"bad_links,omitempty"`
	Walls    []WallShift `json:"walls,omitempty"`
	Samples  []Sample    `json:"samples"`
	Crashes  []Crash     `json:"crashes"`
	// Revocations are of tokens of users.
	Revocations []Revocation `json:"revocations,omitempty"`
	// Stuck are nodes that did not end when they were told to.
	Stuck []Crash `json:"stuck,omitempty"`
	// NoDisks says why no disk could be made to fail.
	NoDisks  string     `json:"no_disks,omitempty"`
	Damaged  []string   `json:"damaged,omitempty"`
	Final    []FinalJob `json:"final"`
	Liveness Liveness   `json:"liveness"`
	// Weights are what nodes held before the load and at the end; Logs are theirs,
	// held against each other.
	Weights []Weight      `json:"weights,omitempty"`
	Logs    []LogOf       `json:"logs,omitempty"`
	Verdict *rota.Verdict `json:"verdict"`
	// Events are the longest of the Streams that are a whole reading.
	Events  []SeenEvent `json:"events,omitempty"`
	Streams []Stream    `json:"streams,omitempty"`
	Shown   []NodeShows `json:"shown,omitempty"`
	Audits  []AuditOf   `json:"audits,omitempty"`
	// Flows were submitted, FinalFlows are those that are known at the end.
	Flows      []FlowFacts `json:"flows,omitempty"`
	FinalFlows []FinalFlow `json:"final_flows,omitempty"`
	// Keyed are the keys that jobs were submitted with, Schedules those that were set.
	Keyed     []KeyFacts      `json:"keyed,omitempty"`
	Schedules []ScheduleFacts `json:"schedules,omitempty"`
	// Rooms are how many leases a worker may hold at most, by its id.
	Rooms map[string]int `json:"rooms,omitempty"`
	// Webhooks follow the schedules.
	Webhooks []WebhookFacts `json:"webhooks,omitempty"`
	// Batches, Uniques and Plans are what their users did; JobLogs are what was read of attempts'
	// logs at the end.
	Batches []BatchFacts  `json:"batches,omitempty"`
	Uniques []UniqueFacts `json:"uniques,omitempty"`
	Plans   []PlanFacts   `json:"plans,omitempty"`
	JobLogs []LogRead     `json:"job_logs,omitempty"`
	// After is nil where nothing was wanted after the run.
	After *Aftermath `json:"after,omitempty"`
	Notes []string   `json:"notes"`
}

// Recorder collects a history from many goroutines.
type Recorder struct {
	Base int64
	mu   sync.Mutex
	H    History
	// limit bounds the operations kept: beyond it the run ends early.
	limit int
	// revoked is when each token's revocation was acknowledged.
	revoked map[string]int64
}

// NewRecorder returns a recorder whose time counts from base, and which keeps limit operations.
func NewRecorder(base int64, limit int) *Recorder { return &Recorder{Base: base, limit: limit} }

// Now is the time of the run.
func (r *Recorder) Now() int64 { return Monotonic() - r.Base }

// Add keeps operations.
func (r *Recorder) Add(ops ...Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.H.Ops = append(r.H.Ops, ops...)
}

// Full reports whether no more should be asked for.
func (r *Recorder) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.H.Ops) >= r.limit
}

// With changes the history under its lock.
func (r *Recorder) With(f func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.H)
}

// Changed notes a process's new state.
func (r *Recorder) Changed(who, state string) {
	at := r.Now()
	r.With(func(h *History) { h.Changes = append(h.Changes, Change{at, who, state}) })
}

// Note keeps a sentence for the report.
func (r *Recorder) Note(format string, args ...any) {
	text := fmt.Sprintf("%7.1fs ", float64(r.Now())/1e9) + fmt.Sprintf(format, args...)
	r.With(func(h *History) {
		if len(h.Notes) < 500 {
			h.Notes = append(h.Notes, text)
		}
	})
}

// SaveHistory writes it compressed.
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

// LoadHistory is the inverse of saveHistory.
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
