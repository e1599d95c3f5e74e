package client

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// fakeNode is a node whose answers the test writes.
type fakeNode struct {
	address  string
	listener *bufconn.Listener
	server   *grpc.Server
	// streams are the workers' streams, in the order they open.
	streams chan *fakeStream

	onSubmit func(context.Context, *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error)
	onGet    func(context.Context, *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error)
	onList   func(*rotav1.ListJobsRequest) (*rotav1.ListJobsResponse, error)
	onLog    func(*rotav1.JobLogRequest) (*rotav1.JobLogResponse, error)
	onRetry  func(*rotav1.RetryJobsRequest) (*rotav1.JobOutcomes, error)
	onChange func(*rotav1.ChangeJobRequest) (*rotav1.JobOutcome, error)
	onWait   func(*rotav1.WaitJobsRequest, grpc.ServerStreamingServer[rotav1.Job]) error
	onStatus func(context.Context) (*rotav1.StatusResponse, error)
	drains   chan string
	onTail   func(*rotav1.TailRequest, grpc.ServerStreamingServer[rotav1.EventBatch]) error
	flows    fakeFlows
}

// The services of a node; each has methods of the same names.
type (
	jobsOf struct {
		rotav1.UnimplementedJobsServer
		*fakeNode
	}
	workersOf struct {
		rotav1.UnimplementedWorkersServer
		*fakeNode
	}
	eventsOf struct {
		rotav1.UnimplementedEventsServer
		*fakeNode
	}
	clusterOf struct {
		rotav1.UnimplementedClusterServer
		*fakeNode
	}
)

func (n jobsOf) Submit(ctx context.Context, r *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
	return n.onSubmit(ctx, r)
}

func (n jobsOf) Get(ctx context.Context, r *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
	return n.onGet(ctx, r)
}

func (n jobsOf) List(_ context.Context, r *rotav1.ListJobsRequest) (*rotav1.ListJobsResponse, error) {
	return n.onList(r)
}

func (n jobsOf) Log(_ context.Context, r *rotav1.JobLogRequest) (*rotav1.JobLogResponse, error) {
	return n.onLog(r)
}

func (n jobsOf) Retry(_ context.Context, r *rotav1.RetryJobsRequest) (*rotav1.JobOutcomes, error) {
	return n.onRetry(r)
}

func (n jobsOf) Change(_ context.Context, r *rotav1.ChangeJobRequest) (*rotav1.JobOutcome, error) {
	return n.onChange(r)
}

func (n jobsOf) Wait(r *rotav1.WaitJobsRequest, s grpc.ServerStreamingServer[rotav1.Job]) error {
	return n.onWait(r, s)
}

func (n workersOf) Drain(_ context.Context, r *rotav1.DrainWorkerRequest) (*rotav1.Worker, error) {
	n.drains <- r.Id
	return &rotav1.Worker{Spec: &rotav1.WorkerSpec{Id: r.Id}}, nil
}

func (n eventsOf) Tail(r *rotav1.TailRequest, s grpc.ServerStreamingServer[rotav1.EventBatch]) error {
	return n.onTail(r, s)
}

func (n clusterOf) Status(ctx context.Context, _ *rotav1.StatusRequest) (*rotav1.StatusResponse, error) {
	return n.onStatus(ctx)
}

func (n clusterOf) Leave(context.Context, *rotav1.LeaveRequest) (*rotav1.LeaveResponse, error) {
	n.drains <- "leave"
	return nil, words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "no leader"))
}

// fakeStream is one worker's stream, as the node sees it.
type fakeStream struct {
	t        *testing.T
	hello    *rotav1.Hello
	grpc     grpc.BidiStreamingServer[rotav1.WorkRequest, rotav1.WorkResponse]
	commands chan *rotav1.LeaseCommands
	beats    chan uint64
	bye      chan struct{}
	end      chan error
	// hears makes the node acknowledge beats as they arrive.
	hears atomic.Bool
	// clock, once set, answers beats as they arrive.
	clock func() rota.Clock
	// every is the beat interval that answers ask of an idle worker; seen are all beats received.
	every time.Duration
	seen  []seenBeat
	mu    sync.Mutex
}

// seenBeat is a beat, when it arrived, and the announced time until the next one.
type seenBeat struct {
	at   time.Time
	next time.Duration
}

func (n workersOf) Work(stream grpc.BidiStreamingServer[rotav1.WorkRequest, rotav1.WorkResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s := &fakeStream{
		hello: first.GetHello(), grpc: stream, end: make(chan error, 1), bye: make(chan struct{}),
		commands: make(chan *rotav1.LeaseCommands, 1000), beats: make(chan uint64, 1000),
	}
	n.streams <- s
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			switch {
			case m.GetBeat() != nil:
				s.mu.Lock()
				s.seen = append(s.seen, seenBeat{time.Now(), time.Duration(m.GetBeat().GetNextMs()) * time.Millisecond})
				s.mu.Unlock()
				if s.hears.Load() {
					_ = s.put(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Heard{Heard: &rotav1.Heard{Sequence: m.GetBeat().Sequence}}})
				}
				if clock := s.ticks(); clock != nil {
					_ = s.put(s.beatAnswer(m.GetBeat().Sequence, clock()))
				} else {
					s.beats <- m.GetBeat().Sequence
				}
			case m.GetCommands() != nil:
				s.commands <- m.GetCommands()
			case m.GetBye() != nil:
				close(s.bye)
				s.end <- nil
			}
		}
	}()
	select {
	case err := <-s.end:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func (s *fakeStream) send(m *rotav1.WorkResponse) {
	s.t.Helper()
	if err := s.put(m); err != nil {
		s.t.Fatalf("send to the worker: %v", err)
	}
}

func (s *fakeStream) put(m *rotav1.WorkResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grpc.Send(m)
}

func (s *fakeStream) ticks() func() rota.Clock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// answerBeats answers the beats received so far and all later ones.
func (s *fakeStream) answerBeats(clock func() rota.Clock) {
	s.mu.Lock()
	s.clock = clock
	s.mu.Unlock()
	for {
		select {
		case sequence := <-s.beats:
			s.send(s.beatAnswer(sequence, clock()))
		default:
			synctest.Wait()
			return
		}
	}
}

func (s *fakeStream) beatAnswer(sequence uint64, clock rota.Clock) *rotav1.WorkResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &rotav1.WorkResponse{Message: &rotav1.WorkResponse_Beat{
		Beat: &rotav1.BeatAnswer{Sequence: sequence, ClockMs: int64(clock), EveryMs: s.every.Milliseconds()}}}
}

// ticking returns a cluster clock that shows 100 s now and advances in real time.
func ticking() func() rota.Clock {
	start := time.Now()
	return func() rota.Clock { return 100_000 + rota.Clock(time.Since(start).Milliseconds()) }
}

func (s *fakeStream) welcome(session uint64) {
	s.send(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Welcome{
		Welcome: &rotav1.Welcome{Session: session, Node: "fake"}}})
}

func (s *fakeStream) notice(notices ...peer.Notice) {
	s.send(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Notices{Notices: words.NoticesToWire(notices)}})
}

// assign sends leases.
func (s *fakeStream) assign(leases ...*rota.Assignment) {
	notices := make([]peer.Notice, len(leases))
	for i, a := range leases {
		notices[i].Assigned = a
	}
	s.notice(notices...)
}

// answerBeat answers the next beat with a clock.
func (s *fakeStream) answerBeat(clock rota.Clock) {
	s.t.Helper()
	s.beat(s.nextBeat(), clock)
}

func (s *fakeStream) nextBeat() uint64 {
	s.t.Helper()
	return within5s(s.t, s.beats, "a beat")
}

func (s *fakeStream) beat(sequence uint64, clock rota.Clock) {
	s.send(s.beatAnswer(sequence, clock))
	synctest.Wait()
}

// next returns the next batch of commands.
func (s *fakeStream) next() *rotav1.LeaseCommands {
	s.t.Helper()
	return within5s(s.t, s.commands, "commands")
}

// expect returns the next batch, which must hold exactly these verbs.
func (s *fakeStream) expect(verbs ...rota.LeaseVerb) *rotav1.LeaseCommands {
	s.t.Helper()
	batch := s.next()
	got := verbsOf(batch)
	if len(got) != len(verbs) {
		s.t.Fatalf("commands %v, want %v", got, verbs)
	}
	for i := range verbs {
		if got[i] != verbs[i] {
			s.t.Fatalf("commands %v, want %v", got, verbs)
		}
	}
	return batch
}

func verbsOf(batch *rotav1.LeaseCommands) (verbs []rota.LeaseVerb) {
	for _, c := range batch.Commands {
		verbs = append(verbs, rota.LeaseVerb(c.Verb))
	}
	return verbs
}

// nothing fails if commands arrived.
func (s *fakeStream) nothing() {
	s.t.Helper()
	time.Sleep(2 * ackHold)
	synctest.Wait()
	select {
	case b := <-s.commands:
		s.t.Fatalf("commands %v, want none", verbsOf(b))
	default:
	}
}

// answer gives every command of a batch the same answer.
func (s *fakeStream) answer(batch *rotav1.LeaseCommands, a peer.LeaseAnswer) {
	answers := &rotav1.LeaseAnswers{Sequence: batch.Sequence}
	for range batch.Commands {
		answers.Answers = append(answers.Answers, words.LeaseAnswerToWire(&a))
	}
	s.send(&rotav1.WorkResponse{Message: &rotav1.WorkResponse_Answers{Answers: answers}})
	synctest.Wait()
}

func within5s[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Second):
		t.Fatalf("no %s within 5 s", what)
	}
	return v
}

// fakeCluster is several nodes with one client.
type fakeCluster struct {
	t      *testing.T
	nodes  []*fakeNode
	client *Client
}

// setup must be called in a synctest bubble; stop ends everything that it started.
func setup(t *testing.T, count int) (f *fakeCluster, stop func()) {
	t.Helper()
	f = &fakeCluster{t: t}
	var addrs []string
	byAddress := make(map[string]*fakeNode)
	for i := range count {
		n := &fakeNode{
			address: "node" + strconv.Itoa(i) + ":6470", listener: bufconn.Listen(1 << 20), server: grpc.NewServer(),
			streams: make(chan *fakeStream, 100), drains: make(chan string, 10),
		}
		rotav1.RegisterJobsServer(n.server, jobsOf{fakeNode: n})
		rotav1.RegisterWorkersServer(n.server, workersOf{fakeNode: n})
		rotav1.RegisterEventsServer(n.server, eventsOf{fakeNode: n})
		rotav1.RegisterClusterServer(n.server, clusterOf{fakeNode: n})
		rotav1.RegisterWorkflowsServer(n.server, flowsOf{fakeNode: n})
		go func() { _ = n.server.Serve(n.listener) }()
		f.nodes, addrs = append(f.nodes, n), append(addrs, n.address)
		byAddress[n.address] = n
	}
	c, err := Dial(addrs, WithDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return byAddress[address].listener.DialContext(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	f.client = c
	return f, func() {
		_ = c.Close()
		for _, n := range f.nodes {
			n.server.Stop()
		}
		synctest.Wait()
	}
}

// stream returns the next worker stream on any node, and the node. A worker that was not welcomed tries again after
// maxWelcome and at most maxBackoff.
func (f *fakeCluster) stream() (*fakeStream, *fakeNode) {
	f.t.Helper()
	const most = maxWelcome + maxBackoff
	late := time.After(most)
	for {
		for _, n := range f.nodes {
			select {
			case s := <-n.streams:
				s.t = f.t
				return s, n
			default:
			}
		}
		select {
		case <-late:
			f.t.Fatalf("no worker connected within %v", most)
		case <-time.After(time.Millisecond):
		}
	}
}

var errStream = words.ToStatus(rota.Refusef(rota.KindUnavailable, "", "the node dies"))
