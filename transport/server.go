package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/transport/web"
)

// These are the protocol settings that need no configuration, each with its reason.
const (
	// maxStreams bounds calls in flight on one connection.
	maxStreams = 1_000
	// streamWorkers is the number of goroutines that serve calls one after the other, on stacks that have grown to what
	// a call needs. When all are busy, a call gets its own goroutine, as usual.
	streamWorkers = 64
	// maxHeaderBytes bounds a call's headers.
	maxHeaderBytes = 16 << 10
	// defaultMaxConnections bounds connections, each of which costs memory.
	defaultMaxConnections = 10_000
	// maxNodeMessageBytes is gRPC's own message limit. edge.go holds public calls to limits.MaxMessageBytes; a call
	// forwarded by another node may be slightly larger than the client's message in it.
	maxNodeMessageBytes = 2 * limits.MaxMessageBytes
	// A connection that is silent for keepaliveEvery is pinged, and closed if no answer arrives within keepaliveAnswer.
	// Clients may ping as often as every minKeepalive; the library's default would disconnect eager ones.
	keepaliveEvery  = 20 * time.Second
	keepaliveAnswer = 10 * time.Second
	minKeepalive    = 10 * time.Second
	// connectionAge makes clients of a name with many addresses spread again. Streams in flight are not cut.
	connectionAge = time.Hour
	// handshakeTimeout ends a connection that never completes its handshake.
	handshakeTimeout = 10 * time.Second
	// lastWrite is the time HTTP has to write the end of its answers while the server shuts down.
	lastWrite = time.Second
	// readyEvery is how often Core.Ready is polled.
	readyEvery = time.Second
)

// Options holds everything that a Server needs.
type Options struct {
	// Self is this node's id, as sent to workers.
	Self rota.NodeID
	// Version is the binary's version, named in each HTTP response.
	Version string
	// Core serves the public calls.
	Core Core
	// Node serves other nodes' calls; nil disables that service.
	Node NodeCore
	// TLS is used when set; its VerifyConnection judges presented certificates. NodeOf returns the node that a
	// certificate belongs to; without it, calls between nodes are rejected.
	TLS    *tls.Config
	NodeOf func(tls.ConnectionState) (rota.NodeID, error)
	// ClientOf returns the role and name in a client's certificate; without it no client certificate counts.
	ClientOf func(tls.ConnectionState) (role, name string, err error)
	// Open allows callers without a credential to ask the status of a node without a cluster.
	Open bool
	// Denied is called for each call that is refused because of its caller. It must not block.
	Denied func(rota.Kind, logs.Denial)
	// Metrics counts and times gRPC calls; nil disables that.
	Metrics *CallMetrics
	// Logger receives messages that are not part of an answer; nil means slog.Default.
	Logger *slog.Logger
	// MaxConnections caps open connections; 0 means 10,000.
	MaxConnections int
	// Hosts are the host names that HTTP answers to; NewServer adds the origins of the cluster's nodes.
	Hosts Hosts
	// Console serves requests under /ui; with nil there is no such path.
	Console Console
	// InflightBytes bounds the bytes of clients' messages that are not answered yet; 0 means 256 MiB.
	InflightBytes int64
	// Wall is the clock that decides when credentials expire on this server; nil means time.Now.
	Wall func() time.Time
	// ReadyEvery is how often Core.Ready is polled for the health service. 0 means every second. With a negative value
	// SetServing alone decides.
	ReadyEvery time.Duration
}

// Server serves the protocol on one listener.
type Server struct {
	options Options
	log     *slog.Logger
	grpc    *grpc.Server
	health  *health.Server
	// http serves the requests on the port that are not gRPC: web has those connections, tails counts the streams among
	// them, batches are events encoded for many.
	http    *http.Server
	site    *web.Site
	web     *connQueue
	tails   sync.WaitGroup
	batches batchShare
	// calls and nodeCalls limit calls in flight, of clients and of other nodes.
	calls, nodeCalls *limiter
	inflight         *inflight
	pool             pool
	desk             desk
	// uploads limits the workflows that arrive, shows the ones that are sent in full.
	uploads, shows allowance
	// entering orders the beginning of such a stream and the shutdown: none is added to tails once the server waits for
	// them.
	entering sync.Mutex
	distrust logs.Limiter
	// life ends with the server, draining when shutdown begins: streams end then.
	life     context.Context
	end      context.CancelFunc
	draining context.Context
	drain    context.CancelFunc
}

// NewServer returns a server; Serve starts it.
func NewServer(options Options) (*Server, error) {
	if options.Core == nil {
		return nil, rota.Refusef(rota.KindInvalid, "core", "a transport server needs a Core")
	}
	if options.MaxConnections < 0 {
		return nil, rota.Refusef(rota.KindInvalid, "max_connections", "max_connections must be at least 1, got %d",
			options.MaxConnections)
	}
	if options.MaxConnections == 0 {
		options.MaxConnections = defaultMaxConnections
	}
	if options.InflightBytes <= 0 {
		options.InflightBytes = DefaultInflightBytes
	}
	if options.ReadyEvery == 0 {
		options.ReadyEvery = readyEvery
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	s := &Server{options: options, log: options.Logger, health: health.NewServer(),
		calls: newLimiter(maxCalls), nodeCalls: &limiter{most: maxNodeCalls, each: maxNodeCalls,
			from: make(map[string]int)}, uploads: allowance{most: uploadsBytes}, shows: allowance{most: showsAtOnce}}
	s.life, s.end = context.WithCancel(context.Background())
	context.AfterFunc(s.life, s.pool.close)
	s.draining, s.drain = context.WithCancel(s.life)
	s.options.Hosts.Nodes = s.nodeOrigins
	s.web = newConnQueue()
	s.inflight = newInflight(options.InflightBytes, s.log)
	s.http = s.webServer()
	s.grpc = grpc.NewServer(s.settings()...)
	if err := s.register(options.Core); err != nil {
		return nil, err
	}
	if options.Node != nil {
		rotav1.RegisterNodeServer(s.grpc, &nodeService{core: options.Node, log: s.log, secure: options.TLS != nil})
	}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.startHealth()
	return s, nil
}

// register registers the services, and HTTP on top of them.
func (s *Server) register(core Core) (err error) {
	jobs := &jobsService{server: s, core: core}
	calls := web.Calls{Workers: &workersService{server: s, core: core}, Queues: &queuesService{core: core},
		Tenants: &tenantsService{core: core},
		Cluster: &clusterService{core: core, attention: s.attention, backups: allowance{most: 1}},
		Explain: &explainService{core: core}, Batches: &batchesService{server: s, core: core},
		Schedules: &schedulesService{core: core}, Keys: &keysService{core: core}, Budgets: &budgetsService{core: core}, Plans: &plansService{core: core},
		Workflows: &workflowsService{server: s, core: core}, Webhooks: &webhooksService{core: core},
		Polling: &pollingService{server: s, core: core},
		Auth:    &authService{core: core, exchanges: newAddressLimiter(maxExchanges), uiOrigin: s.options.Hosts.UI}}
	s.grpc.RegisterService(jobsDesc(), jobs)
	rotav1.RegisterWorkersServer(s.grpc, calls.Workers)
	rotav1.RegisterQueuesServer(s.grpc, calls.Queues)
	rotav1.RegisterTenantsServer(s.grpc, calls.Tenants)
	rotav1.RegisterKeysServer(s.grpc, calls.Keys)
	rotav1.RegisterBudgetsServer(s.grpc, calls.Budgets)
	rotav1.RegisterPlansServer(s.grpc, calls.Plans)
	rotav1.RegisterBatchesServer(s.grpc, calls.Batches)
	rotav1.RegisterSchedulesServer(s.grpc, calls.Schedules)
	rotav1.RegisterWebhooksServer(s.grpc, calls.Webhooks)
	rotav1.RegisterAuthServer(s.grpc, calls.Auth)
	rotav1.RegisterExplainServer(s.grpc, calls.Explain)
	rotav1.RegisterEventsServer(s.grpc, &eventsService{server: s, core: core})
	rotav1.RegisterWorkflowsServer(s.grpc, calls.Workflows)
	rotav1.RegisterClusterServer(s.grpc, calls.Cluster)
	s.site, err = s.newSite(jobs, calls)
	return err
}

func (s *Server) settings() []grpc.ServerOption {
	settings := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxStreams), grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxRecvMsgSize(maxNodeMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepaliveEvery, Timeout: keepaliveAnswer, MaxConnectionAge: connectionAge,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minKeepalive, PermitWithoutStream: true,
		}),
		grpc.InTapHandle(s.tap),
		grpc.ForceServerCodecV2(words.Codec()),
		grpc.StaticStreamWindowSize(words.StreamWindow), grpc.StaticConnWindowSize(words.ConnWindow),
	}
	return append(append(settings, s.interceptors()...), grpc.Creds(newSorter(s, s.web)))
}

// untrusted logs, at most once a minute, a connection whose certificate no longer counts.
func (s *Server) untrusted(err error) {
	if s.distrust.Allow("") {
		s.log.Warn("connection closed: its certificate no longer counts", "error", err)
	}
}

// Serve answers calls on a listener until Drain or Close, then returns nil.
func (s *Server) Serve(lis net.Listener) error {
	if s.options.ReadyEvery > 0 {
		go s.pollReady(s.options.ReadyEvery)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.http.Serve(s.web)
	}()
	go s.desk.watch(s)
	defer func() {
		s.beginEnd()
		s.awaitTails()
		_ = s.http.Close()
		<-served
		s.tails.Wait()
	}()
	err := s.grpc.Serve(CapListener(lis, s.options.MaxConnections, connGrace, s.log))
	if err != nil && s.draining.Err() == nil {
		return &rota.Error{Kind: rota.KindInternal, Op: "serve", Text: "listen at " + lis.Addr().String(), Cause: err}
	}
	return nil
}

// Drain ends the server without disturbing clients: health reports NOT_SERVING first, streams are sent elsewhere, calls
// in flight are answered. Calls that remain when ctx ends are cut off, and the error reports that.
func (s *Server) Drain(ctx context.Context) error {
	s.health.Shutdown()
	s.beginEnd()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
		s.tails.Wait()
		s.lastWords()
	}()
	defer s.end()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		s.end()
		<-done
		return &rota.Error{Kind: rota.KindTimeout, Op: "drain",
			Text: "calls still in flight were cancelled", Cause: ctx.Err()}
	}
}

// Close ends the server at once.
func (s *Server) Close() {
	s.health.Shutdown()
	s.beginEnd()
	s.grpc.Stop()
	s.end()
}

// awaitTails waits until HTTP requests in progress are answered and streams have sent why they end, or until the server
// ends at once.
func (s *Server) awaitTails() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.tails.Wait()
	}()
	select {
	case <-done:
	case <-s.life.Done():
		return
	}
	s.lastWords()
}

// lastWords waits until the end of HTTP's answers is written, which happens after the call has returned.
func (s *Server) lastWords() {
	ctx, cancel := context.WithTimeout(s.life, lastWrite)
	defer cancel()
	_ = s.http.Shutdown(ctx)
}

// enter counts a stream of the web, unless the server ends; tails.Done ends it.
func (s *Server) enter() bool {
	s.entering.Lock()
	defer s.entering.Unlock()
	if s.draining.Err() != nil {
		return false
	}
	s.tails.Add(1)
	return true
}

// beginEnd ends the streams; no new one begins.
func (s *Server) beginEnd() {
	s.entering.Lock()
	defer s.entering.Unlock()
	s.drain()
}

// going returns the error that streams receive when the server drains.
func (s *Server) going() error {
	return rota.Refusef(rota.KindUnavailable, "node", "node %s is shutting down: connect to another node",
		s.options.Self)
}

// untilDrain returns a context that also ends when the server drains.
func (s *Server) untilDrain(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.draining, func() { cancel(s.going()) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
