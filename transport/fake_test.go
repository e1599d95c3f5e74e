package transport

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

func TestMain(m *testing.M) {
	// An HTTP connection closed before a body was read waits half a second for its client.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// bubble runs a test in a bubble, so that a busy machine cannot make a deadline of the server or of the test pass.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// bundle is a served Server over an in-memory listener with a fake core.
type bundle struct {
	server  *Server
	core    *fakeCore
	node    *fakeNode
	log     *lines
	lis     *bufconn.Listener
	conn    *grpc.ClientConn
	jobs    rotav1.JobsClient
	workers rotav1.WorkersClient
	queues  rotav1.QueuesClient
	tenants rotav1.TenantsClient
	keys    rotav1.KeysClient
	budgets rotav1.BudgetsClient
	cluster rotav1.ClusterClient
	flows   rotav1.WorkflowsClient
}

func setup(t testing.TB, change ...func(*Options)) *bundle {
	t.Helper()
	b := &bundle{core: &fakeCore{}, node: &fakeNode{id: "c1", name: "prod"}, log: &lines{},
		lis: bufconn.Listen(1 << 20)}
	options := Options{
		Self: "n1", Core: b.core, Node: b.node, ReadyEvery: -1, Hosts: Hosts{Names: []string{"node", "n1.rota"}},
		Logger: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&options)
	}
	var err error
	if b.server, err = NewServer(options); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(b.lis) }()
	b.conn, err = grpc.NewClient("passthrough:///bufconn",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return b.lis.DialContext(ctx)
		}),
		grpc.WithDisableRetry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.conn.Close()
		b.server.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	b.jobs, b.workers = rotav1.NewJobsClient(b.conn), rotav1.NewWorkersClient(b.conn)
	b.queues, b.cluster = rotav1.NewQueuesClient(b.conn), rotav1.NewClusterClient(b.conn)
	b.keys, b.budgets = rotav1.NewKeysClient(b.conn), rotav1.NewBudgetsClient(b.conn)
	b.tenants, b.flows = rotav1.NewTenantsClient(b.conn), rotav1.NewWorkflowsClient(b.conn)
	return b
}

// bounded returns a context that ends long after any call here should have ended.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// lines is a log that tests may read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// fakeCore returns the results of its functions, or an echo of their arguments where none is set. A test sets what it
// uses before the first call.
type fakeCore struct {
	// recent holds the recently ended jobs, by queue.
	recent map[rota.QueueName]peer.QueueRecent
	// ended lists the sessions that were signed out.
	ended []string
	// tables is used in place of table.
	tables   access.Table
	submit   func(context.Context, []rota.JobSpec) ([]rota.Submitted, error)
	job      func(context.Context, rota.JobID, peer.ReadOptions) (rota.Job, rota.ReadAt, error)
	jobs     func(context.Context, rota.JobFilter, peer.ReadOptions) (rota.JobPage, rota.ReadAt, error)
	await    func(context.Context, []rota.JobID, func(rota.Job) error) error
	outcomes func(context.Context, []rota.JobID) ([]rota.JobOutcome, error)
	attach   func(rota.WorkerID, []byte) (WorkerSession, error)
	open     func(context.Context, rota.WorkerSpec, []byte, bool) (WorkerSession, error)
	// attested is the last worker's attestation.
	attested *rota.Attestation
	link     peer.WorkerLink
	snapshot func(context.Context, io.Writer) error
	workers  []rota.Worker
	queues   []rota.Queue
	tenants  []rota.Tenant
	events   func(context.Context, rota.EventFilter, func(peer.EventBatch) error) error
	ready    func() error
	flows    fakeFlows
	leader   peer.NodeAddress
	apis     []string
	err      error // of every call that has no function
	table    atomic.Pointer[rightsTable]
	// until is when all its tokens end, 0 for never.
	until atomic.Int64
	// unvouched is why no leader confirms the node's state.
	unvouched atomic.Pointer[rota.Error]
	// lags reports that the node has not caught up.
	lags atomic.Bool
}

func (c *fakeCore) Submit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
	if c.submit != nil {
		return c.submit(ctx, jobs)
	}
	out := make([]rota.Submitted, len(jobs))
	for i := range jobs {
		out[i] = rota.Submitted{ID: jobs[i].ID, State: rota.JobQueued, Index: rota.Index(i + 1)}
	}
	return out, c.err
}

func (c *fakeCore) Job(ctx context.Context,
	id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
	if c.job != nil {
		return c.job(ctx, id, opt)
	}
	return rota.Job{JobSpec: rota.JobSpec{ID: id}, State: rota.JobQueued}, rota.ReadAt{Index: opt.MinIndex,
		Age: 3 * time.Millisecond}, c.err
}

func (c *fakeCore) Jobs(ctx context.Context,
	f rota.JobFilter, opt peer.ReadOptions) (rota.JobPage, rota.ReadAt, error) {
	if c.jobs != nil {
		return c.jobs(ctx, f, opt)
	}
	if f.Count || f.GroupBy != "" {
		groups := []rota.JobGroup{{Fingerprint: rota.Hex{7}, Count: 3, Job: "j1", Type: "t", Error: "disk full"}}
		return rota.JobPage{Counted: &rota.JobCount{Count: 3, Groups: groups[:len(f.GroupBy)/len("fingerprint")],
			Complete: true}}, rota.ReadAt{Index: 9}, c.err
	}
	return rota.JobPage{Jobs: []rota.Job{{JobSpec: rota.JobSpec{ID: "j1", Queue: f.Queue}, State: f.State}},
			NextCursor: "n"},
		rota.ReadAt{Index: 9}, c.err
}

func (c *fakeCore) AwaitJobs(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error {
	if c.await != nil {
		return c.await(ctx, ids, done)
	}
	for _, id := range ids {
		if err := done(rota.Job{JobSpec: rota.JobSpec{ID: id}, State: rota.JobCompleted}); err != nil {
			return err
		}
	}
	return c.err
}

func (c *fakeCore) Cancel(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	if c.outcomes != nil {
		return c.outcomes(ctx, ids)
	}
	out := make([]rota.JobOutcome, len(ids))
	for i, id := range ids {
		out[i] = rota.JobOutcome{ID: id, State: rota.JobCancelled, Index: 5}
	}
	return out, c.err
}

// fakeAt returns the ReadAt of a single read.
func fakeAt(opt peer.ReadOptions) rota.ReadAt {
	if opt.Stale {
		return rota.ReadAt{Index: 6, Age: 70 * time.Millisecond}
	}
	return rota.ReadAt{Index: 9}
}

func (c *fakeCore) Past(_ context.Context, q rota.WhyQuery) (rota.Past, error) {
	return rota.Past{Index: q.At, From: 3, Entries: int64(q.At) - 3}, c.err
}

func (c *fakeCore) Why(_ context.Context, id rota.JobID, q rota.WhyQuery,
	opt peer.ReadOptions) (rota.Explanation, rota.ReadAt, error) {
	if id == "nobody" {
		return rota.Explanation{}, fakeAt(opt), rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	}
	return rota.Explanation{Job: id, State: rota.JobQueued, Index: q.At, Date: q.AtDate,
			Reasons:  []rota.Why{{Reason: "NO_FREE_SLOT", Workers: 2}},
			Decision: &rota.PlacedDecision{Worker: "w", Others: []rota.OtherWorker{{Worker: "v", Reason: "CPU_FULL"}}}},
		fakeAt(opt), nil
}

func (c *fakeCore) ETA(_ context.Context, id rota.JobID, opt peer.ReadOptions) (rota.ETA, rota.ReadAt, error) {
	switch id {
	case "nobody":
		return rota.ETA{}, fakeAt(opt), rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
	case "crowd":
		return rota.ETA{}, fakeAt(opt), &rota.Error{Kind: rota.KindExhausted, Subject: "eta",
			Text: "others are forecast for", RetryAfter: 1500 * time.Millisecond}
	}
	return rota.ETA{Job: id, State: rota.JobQueued, Index: 9, Clock: 5, Date: 1_000, Expected: 3_000, Earliest: 2_000,
		Latest:  4_000,
		HangsOn: []rota.HangsOn{{Tenant: "acme", Jobs: 3, Running: true, Worker: "w"}, {Jobs: 2}},
		Basis:   []string{"of 7 jobs"},
		Reasons: []rota.Why{{Reason: "NO_FREE_SLOT", Workers: 2}}, WouldRun: []string{"a lease ends"}}, fakeAt(opt), nil
}

func (c *fakeCore) JobLog(_ context.Context, of rota.LogOf,
	opt peer.ReadOptions) (rota.AttemptLog, rota.ReadAt, error) {
	if of.Job == "nobody" {
		return rota.AttemptLog{}, fakeAt(opt), rota.Refusef(rota.KindNotFound, "job", "job %q is not known", of.Job)
	}
	attempt := int32(3)
	if of.Attempt != nil {
		attempt = *of.Attempt
	}
	return rota.AttemptLog{Job: of.Job, Attempt: attempt, Worker: "w", Open: true,
		Parts: []rota.LogPart{{At: of.After, CutLines: 2, Text: []byte("said\n")}}}, fakeAt(opt), c.err
}

func (c *fakeCore) Retry(ctx context.Context, retries []rota.JobRetry) ([]rota.JobOutcome, error) {
	ids := make([]rota.JobID, len(retries))
	for i, r := range retries {
		ids[i] = r.ID
	}
	return c.Cancel(ctx, ids)
}

func (c *fakeCore) Workers(context.Context, peer.ReadOptions) ([]rota.Worker, rota.ReadAt, error) {
	return c.workers, rota.ReadAt{Index: 4}, c.err
}

func (c *fakeCore) Worker(_ context.Context, id rota.WorkerID, opt peer.ReadOptions) (rota.Worker, rota.ReadAt, error) {
	return rota.Worker{WorkerSpec: rota.WorkerSpec{ID: id}, Status: rota.WorkerActive}, fakeAt(opt), c.err
}

func (c *fakeCore) DrainWorker(_ context.Context, id rota.WorkerID) (rota.Worker, error) {
	return rota.Worker{WorkerSpec: rota.WorkerSpec{ID: id}, Status: rota.WorkerDraining}, c.err
}

func (c *fakeCore) OpenWorker(ctx context.Context,
	spec rota.WorkerSpec, secret []byte, takeover bool, attestation *rota.Attestation,
	link peer.WorkerLink) (WorkerSession, error) {
	c.attested, c.link = attestation, link
	if c.open != nil {
		return c.open(ctx, spec, secret, takeover)
	}
	return nil, c.err
}

func (c *fakeCore) AttachWorker(_ context.Context, id rota.WorkerID, secret []byte) (WorkerSession, error) {
	if c.attach != nil {
		return c.attach(id, secret)
	}
	return nil, c.err
}

func (c *fakeCore) Queues(context.Context, peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error) {
	return c.queues, rota.ReadAt{Index: 4}, c.err
}

func (c *fakeCore) Queue(_ context.Context, name rota.QueueName,
	opt peer.ReadOptions) (rota.Queue, rota.ReadAt, error) {
	return rota.Queue{Name: name, Policy: rota.StandardPolicy()}, fakeAt(opt), c.err
}

func (c *fakeCore) SetQueue(_ context.Context,
	name rota.QueueName, _ string, set []rota.Setting) (rota.Queue, error) {
	q := rota.Queue{Name: name, Policy: rota.StandardPolicy()}
	for _, s := range set {
		if err := q.Policy.Set(s); err != nil {
			return q, err
		}
	}
	return q, c.err
}

func (c *fakeCore) PreviewQueue(ctx context.Context, name rota.QueueName, preset string,
	set []rota.Setting) (rota.Queue, error) {
	q, err := c.SetQueue(ctx, name, preset, set)
	usual := rota.StandardPolicy()
	q.Changes = usual.Differences(&q.Policy)
	return q, err
}

func (c *fakeCore) Status(context.Context) (rota.ClusterStatus, error) {
	return rota.ClusterStatus{ClusterID: "c1", Leader: "n2", Term: 3, Nodes: []rota.NodeStatus{{ID: "n2"}}},
		c.err
}

func (c *fakeCore) DatesOf(_ *rota.ScheduleTimes, after rota.Date, _ int) ([]rota.Date, error) {
	return []rota.Date{after + 1}, c.err
}

func (c *fakeCore) Recent(context.Context) map[rota.QueueName]peer.QueueRecent { return c.recent }

func (c *fakeCore) Views(context.Context) ([]peer.NodeViews, error) {
	return []peer.NodeViews{{ID: "n1", Views: []peer.NodeView{{ID: "n2", Gossip: "ALIVE", AnsweredMs: 12, RaftMs: -1}}},
		{ID: "n2", Error: "does not answer"}}, c.err
}

func (c *fakeCore) Round(_ context.Context, epoch uint64, height rota.Index) (peer.Round, rota.ReadAt, error) {
	pairs := []peer.Pair{{Job: "j", Worker: "w", Score: 5, Rank: 1,
		Reasoning: rota.Reasoning{Rule: rota.ReasoningBySameZone}}}
	return peer.Round{Epoch: epoch, Height: height, Queue: "q", Index: height + 1, Seed: rota.Hex{7}, Proved: true,
		Logged: pairs, Computed: pairs,
		Candidates: []peer.Candidate{{Job: "i"}, {Job: "j", Score: 5, Rank: 1}}, Workers: []rota.WorkerID{"w"},
		Room: 1}, rota.ReadAt{Index: 9}, c.err
}

func (c *fakeCore) Lanes(_ context.Context, query peer.LanesQuery,
	opt peer.ReadOptions) (peer.Lanes, rota.ReadAt, error) {
	one := peer.Lane{Tenant: "acme", Type: "t", Jobs: 3, OldestWait: time.Second, Oldest: "o", Head: "j",
		Reasons: []rota.Why{{Reason: "TENANT_AT_LIMIT"}}}
	if query.Oldest {
		one.OldestWait = time.Minute
	}
	return peer.Lanes{Queue: query.Queue, Lanes: int64(query.Most), First: []peer.Lane{one}}, fakeAt(opt), c.err
}

func (c *fakeCore) Peers(context.Context) ([]rota.RaftPeer, error) {
	return []rota.RaftPeer{{ID: "n1", Address: "a:1", Voter: true, Leader: true}}, c.err
}

func (c *fakeCore) TransferLeadership(_ context.Context, to rota.NodeID) (rota.NodeID, error) {
	return to, c.err
}
func (c *fakeCore) RemovePeer(context.Context, rota.NodeID) error { return c.err }
func (c *fakeCore) Leave(context.Context) error                   { return c.err }

func (c *fakeCore) StoreBackup(context.Context) (rota.StoredBackup, error) {
	return rota.StoredBackup{Index: 7, Date: 9, Name: "c-1.snap", SHA256: rota.Hex{1}, Bytes: 5}, c.err
}

func (c *fakeCore) InstallTZData(_ context.Context, t rota.TZInstall) (rota.TZData, error) {
	return rota.TZData{Release: t.Release, Released: t.Released, Bytes: int64(len(t.Data)), Index: 7}, c.err
}

func (c *fakeCore) SaveSnapshot(ctx context.Context, _ peer.ReadOptions, w io.Writer) error {
	if c.snapshot != nil {
		return c.snapshot(ctx, w)
	}
	return c.err
}

func (c *fakeCore) Verify(context.Context) (rota.Verdict, error) {
	return rota.Verdict{Index: 8, Equal: true, Nodes: []rota.NodeVerdict{{ID: "n1", Index: 8}}}, c.err
}

func (c *fakeCore) Leader() (peer.NodeAddress, bool) { return c.leader, c.leader.API != "" }

func (c *fakeCore) APIs() []string { return c.apis }

func (c *fakeCore) Ready() error {
	if c.ready != nil {
		return c.ready()
	}
	return c.err
}

func (c *fakeCore) Vouched() error {
	if e := c.unvouched.Load(); e != nil {
		return e
	}
	return nil
}

func (c *fakeCore) CaughtUp() bool { return !c.lags.Load() }

// fakeNode is a NodeCore.
type fakeNode struct {
	id        rota.ClusterID
	name      string
	forwarded func(context.Context, []byte) ([]byte, error)
	err       error
	// recorded answers Recorded; nil accepts all.
	recorded func(id rota.NodeID, identity string) error
	// asked is the last removal's principal.
	asked atomic.Pointer[access.Caller]
	// introduced is the last introduction of a node.
	introduced atomic.Pointer[peer.Introduction]
}

func (n *fakeNode) ClusterID() rota.ClusterID { return n.id }
func (n *fakeNode) Name() string              { return n.name }

func (n *fakeNode) Recorded(id rota.NodeID, identity string) error {
	if n.recorded != nil {
		return n.recorded(id, identity)
	}
	return nil
}

func (n *fakeNode) Forwarded(ctx context.Context, commands []byte) ([]byte, error) {
	if n.forwarded != nil {
		return n.forwarded(ctx, commands)
	}
	return append([]byte("ok:"), commands...), n.err
}

func (n *fakeNode) Beats(_ context.Context, beats []peer.Beat) (peer.BeatAnswer, error) {
	return peer.BeatAnswer{Beaten: peer.Beaten{Clock: 77, Every: 3 * time.Second},
		Refused: []int32{int32(len(beats)) - 1}}, n.err
}

func (n *fakeNode) Barrier(context.Context) (rota.Index, error) { return 42, n.err }

func (n *fakeNode) Inspect(_ context.Context, at []rota.Index) (peer.Inspection, error) {
	digests := make([]*rota.Digest, len(at))
	for i := range at {
		if at[i] != 0 {
			digests[i] = &rota.Digest{Lo: uint64(at[i])}
		}
	}
	return peer.Inspection{ClusterID: n.id, WallMs: 5, Digests: digests, Term: 6, LastLogIndex: 8,
		Cut: peer.LogCut{From: 2, To: 7, Term: 1, AtMs: 3}}, n.err
}

func (n *fakeNode) CheckAt(_ context.Context, index rota.Index) (rota.NodeVerdict, error) {
	return rota.NodeVerdict{ID: "n1", Index: index, Violations: []string{}}, n.err
}

func (n *fakeNode) SaveState(_ context.Context, w io.Writer) error {
	if n.err != nil {
		return n.err
	}
	_, err := w.Write(fakeState)
	return err
}

// fakeState is longer than a chunk.
var fakeState = bytes.Repeat([]byte("state"), chunkBytes)

func (n *fakeNode) ArchiveRange(_ context.Context, span peer.ArchiveSpan, most int64) (peer.ArchiveSlice, error) {
	return peer.ArchiveSlice{Covered: []peer.ArchiveSpan{span}, Floor: 3, Last: uint64(most),
		Records: []peer.ArchiveRecord{{Seq: span.To, Data: []byte("record")}}}, n.err
}

func (n *fakeNode) ArchiveSums(_ context.Context, span peer.ArchiveSpan,
	sum []byte) (bool, []peer.ArchiveRecord, error) {
	return span.From == 4, []peer.ArchiveRecord{{Seq: span.To, Data: sum}}, n.err
}

func (n *fakeNode) LogHere(lease rota.LeaseID, after uint64) peer.NodeLog {
	return peer.NodeLog{Known: true, Parts: []rota.LogPart{{At: after, Text: []byte{lease[0], '\n'}}}}
}

func (n *fakeNode) ArchiveRecords(_ context.Context, ids []rota.JobID) ([]peer.ArchiveRecord, error) {
	records := make([]peer.ArchiveRecord, len(ids))
	records[len(ids)-1] = peer.ArchiveRecord{Seq: uint64(len(ids)), Data: []byte(ids[len(ids)-1])}
	return records, n.err
}

func (n *fakeNode) ListArchived(_ context.Context, f rota.JobFilter, at rota.Index) (rota.JobPage, error) {
	job := rota.Job{JobSpec: rota.JobSpec{ID: "j1", Queue: f.Queue}, State: f.State, Archived: true}
	return rota.JobPage{Jobs: []rota.Job{job}, NextCursor: f.Cursor + strings.Repeat("+", int(at))}, n.err
}

// fakeSession is a WorkerSession; the test sends notices into it.
type fakeSession struct {
	notices  chan []peer.Notice
	ended    chan error // the error that Await returns
	mu       sync.Mutex
	waiting  []peer.Notice
	do       func(context.Context, []peer.LeaseCommand) ([]peer.LeaseAnswer, error)
	beat     func(context.Context) (rota.Clock, error)
	bye      func(context.Context) error
	standing func() (peer.Standing, error)
	offer    func(poll uint64, free int32) error
	graced   atomic.Bool
	byeErr   error
	byes     chan struct{}
	closed   chan struct{}
}

func newSession() *fakeSession {
	return &fakeSession{
		notices: make(chan []peer.Notice), ended: make(chan error, 1),
		byes: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

func (s *fakeSession) Session() rota.Session { return 7 }

func (s *fakeSession) Await(ctx context.Context) error {
	select {
	case n := <-s.notices:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = append(s.waiting, n...)
		return nil
	case err := <-s.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *fakeSession) Take() []peer.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting
	s.waiting = nil
	return waiting
}

func (s *fakeSession) Do(ctx context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
	if s.do != nil {
		return s.do(ctx, commands)
	}
	out := make([]peer.LeaseAnswer, len(commands))
	for i := range commands {
		out[i] = peer.LeaseAnswer{JobState: rota.JobCompleted, Renewals: commands[i].Ordinal, Index: 3}
	}
	return out, nil
}

func (s *fakeSession) Beat(ctx context.Context, _ time.Duration) (b peer.Beaten, err error) {
	b.Clock = 1234
	if s.beat != nil {
		b.Clock, err = s.beat(ctx)
	}
	return b, err
}

func (s *fakeSession) Logged([]peer.Logged) {}

func (s *fakeSession) Graced() bool { return s.graced.Load() }

func (s *fakeSession) Standing(context.Context, peer.ReadOptions) (peer.Standing, error) {
	if s.standing != nil {
		return s.standing()
	}
	return peer.Standing{Status: rota.WorkerActive}, nil
}

func (s *fakeSession) Offer(_ context.Context, poll uint64, free int32, _ time.Duration) error {
	if s.offer != nil {
		return s.offer(poll, free)
	}
	return nil
}

func (s *fakeSession) Bye(ctx context.Context) error {
	if s.bye != nil {
		return s.bye(ctx)
	}
	s.byes <- struct{}{}
	return s.byeErr
}

func (s *fakeSession) Close() { close(s.closed) }

func (n *fakeNode) Introduce(in peer.Introduction) error {
	n.introduced.Store(&in)
	return n.err
}

func (n *fakeNode) RemoveHere(ctx context.Context, _ rota.NodeID) error {
	if c, ok := ctx.Value(access.CallerKey{}).(access.Caller); ok {
		n.asked.Store(&c)
	}
	return n.err
}

func (n *fakeNode) TransferHere(context.Context, rota.NodeID) (rota.NodeID, error) {
	return "n2", n.err
}

// eventsPath is the path of events.
const eventsPath = "/v1/events"

func (c *fakeCore) Stats(_ context.Context, coarse bool) (peer.Stats, error) {
	step := time.Second
	if coarse {
		step = time.Minute
	}
	return peer.Stats{Step: step, Samples: []peer.Sample{{Date: 1_000, Submitted: 3,
		Gauges: peer.Gauges{Pending: 5, Commit: time.Millisecond}}, {Date: 2_000, Completed: 4}}}, c.err
}
