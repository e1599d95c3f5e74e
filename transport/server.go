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
)

// The settings of the protocol that nobody needs to change, each with its reason.
const (
	// maxStreams bounds calls in flight on one connection.
	maxStreams = 1_000
	// streamWorkers serve calls one after the other, on stacks that have grown to what a
	// call needs; where all are busy a call gets a goroutine of its own, as ever.
	streamWorkers = 64
	// maxHeaderBytes bounds a call's headers.
	maxHeaderBytes = 16 << 10
	// defaultMaxConnections bounds connections, each of which costs memory.
	defaultMaxConnections = 10_000
	// maxNodeMessageBytes is what gRPC itself takes. Public calls are held to
	// limits.MaxMessageBytes in edge.go; a call forwarded by another node may be
	// a little longer than the client's message that it stands for.
	maxNodeMessageBytes = 2 * limits.MaxMessageBytes
	// A connection that is silent for keepaliveEvery is asked for a sign, and
	// closed when none comes within keepaliveAnswer. Clients may ask as often
	// as every keepaliveLeast; the library's default would cut eager ones off.
	keepaliveEvery  = 20 * time.Second
	keepaliveAnswer = 10 * time.Second
	keepaliveLeast  = 10 * time.Second
	// connectionAge makes clients of a name with many addresses spread anew.
	// Streams in flight are not cut.
	connectionAge = time.Hour
	// handshakeTimeout ends a connection that never says anything.
	handshakeTimeout = 10 * time.Second
	// readyEvery is how often Core.Ready is asked.
	readyEvery = time.Second
)

// Options is everything that a Server needs.
type Options struct {
	// Self is this node's id, told to workers.
	Self rota.NodeID
	// Core serves the public calls.
	Core Core
	// Node serves other nodes' calls; nil leaves that service out.
	Node NodeCore
	// TLS is used when set; its VerifyConnection judges who shows a certificate. NodeOf
	// returns the node that one is of: without it no call between nodes is taken.
	TLS    *tls.Config
	NodeOf func(tls.ConnectionState) (rota.NodeID, error)
	// ClientOf returns role and name in a client's certificate; without it none counts.
	ClientOf func(tls.ConnectionState) (role, name string, err error)
	// Open says that callers without a credential may ask how a node without a cluster does.
	Open bool
	// Denied is told of each call that is refused for who made it, and does not wait.
	Denied func(rota.Kind, logs.Denial)
	// Logger takes what is not an answer to anybody; nil is slog.Default.
	Logger *slog.Logger
	// MaxConnections caps open connections; 0 means 10,000.
	MaxConnections int
	// Hosts are the names that HTTP answers to.
	Hosts Hosts
	// InflightBytes bounds the bytes of clients' messages before they are answered; 0 means 256 MiB.
	InflightBytes int64
	// Wall is the clock by whose date credentials end here; nil is time.Now.
	Wall func() time.Time
	// ReadyEvery is how often Core.Ready is asked for the health service; 0
	// means every second, less than 0 never: then SetServing alone decides.
	ReadyEvery time.Duration
}

// Server serves the protocol on one listener.
type Server struct {
	options Options
	log     *slog.Logger
	grpc    *grpc.Server
	health  *health.Server
	// http serves what came to the port and is no gRPC: web has those connections,
	// tails counts the streams among them, batches are events encoded for many.
	http    *http.Server
	web     *connQueue
	tails   sync.WaitGroup
	batches batchShare
	// calls are those in flight, of clients and of other nodes.
	calls, nodeCalls *limiter
	inflight         *inflight
	desk             desk
	// uploads are the workflows that arrive, shows the ones that are told of whole.
	uploads, shows allowance
	// entering orders the beginning of such a stream and that of the end: none is
	// added to tails once they are waited for.
	entering sync.Mutex
	distrust logs.Limiter
	// life ends with the server, draining when it begins to go: streams end then.
	life     context.Context
	end      context.CancelFunc
	draining context.Context
	drain    context.CancelFunc
}

// NewServer makes a server; Serve starts it.
func NewServer(options Options) (*Server, error) {
	if options.Core == nil {
		return nil, rota.Refusef(rota.KindInvalid, "core", "a transport server needs a Core")
	}
	if options.MaxConnections < 0 {
		return nil, rota.Refusef(rota.KindInvalid, "max_connections", "max_connections is %d: at least 1 is wanted",
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
		calls: newLimiter(callsMost), nodeCalls: &limiter{most: nodeCallsMost, each: nodeCallsMost, from: make(map[string]int)},
		uploads: allowance{most: uploadsBytes}, shows: allowance{most: showsAtOnce}}
	s.life, s.end = context.WithCancel(context.Background())
	s.draining, s.drain = context.WithCancel(s.life)
	s.web = newConnQueue()
	s.inflight = newInflight(options.InflightBytes, s.log)
	s.http = s.webServer()
	s.grpc = grpc.NewServer(s.settings()...)
	s.grpc.RegisterService(jobsDesc(), &jobsService{server: s, core: options.Core})
	rotav1.RegisterWorkersServer(s.grpc, &workersService{server: s, core: options.Core})
	rotav1.RegisterQueuesServer(s.grpc, &queuesService{core: options.Core})
	rotav1.RegisterTenantsServer(s.grpc, &tenantsService{core: options.Core})
	rotav1.RegisterAuthServer(s.grpc, &authService{core: options.Core, exchanges: newTurnstile(exchangesMost)})
	rotav1.RegisterExplainServer(s.grpc, &explainService{core: options.Core})
	rotav1.RegisterEventsServer(s.grpc, &eventsService{server: s, core: options.Core})
	rotav1.RegisterWorkflowsServer(s.grpc, &workflowsService{server: s, core: options.Core})
	rotav1.RegisterClusterServer(s.grpc, &clusterService{core: options.Core, backups: allowance{most: 1}})
	if options.Node != nil {
		rotav1.RegisterNodeServer(s.grpc, &nodeService{core: options.Node, log: s.log, secure: options.TLS != nil})
	}
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.startHealth()
	return s, nil
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
			MinTime: keepaliveLeast, PermitWithoutStream: true,
		}),
		grpc.InTapHandle(s.tap),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.streaming),
		grpc.ForceServerCodecV2(words.Codec()),
		grpc.StaticStreamWindowSize(words.StreamWindow), grpc.StaticConnWindowSize(words.ConnWindow),
	}
	return append(settings, grpc.Creds(newSorter(s, s.web)))
}

// untrusted tells, once a minute, of a connection whose certificate no longer counts.
func (s *Server) untrusted(err error) {
	if s.distrust.Allow("") {
		s.log.Warn("connection closed: its certificate no longer counts", "error", err)
	}
}

// Serve answers calls on a listener until Drain or Close, then gives nil.
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

// Drain ends the server so that nobody notices: health says NOT_SERVING first,
// streams are told to go elsewhere, calls in flight are answered. What is left
// when ctx ends is cut off, and the error says so.
func (s *Server) Drain(ctx context.Context) error {
	s.health.Shutdown()
	s.beginEnd()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
		s.tails.Wait()
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
			Text: "calls that were still in flight were cut off", Cause: ctx.Err()}
	}
}

// Close ends the server at once.
func (s *Server) Close() {
	s.health.Shutdown()
	s.beginEnd()
	s.grpc.Stop()
	s.end()
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

// going is what a stream is told when the server drains.
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
