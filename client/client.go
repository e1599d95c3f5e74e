package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

const (
	// receiveMost bounds one message from a node.
	receiveMost = 4 << 20
	// keepaliveEvery is how long a connection with calls may be silent before it
	// is asked for a sign (nodes allow twice as often), keepaliveLost how long it
	// is believed in after that.
	keepaliveEvery = 20 * time.Second
	keepaliveLost  = 10 * time.Second
	// connectMost is how long one attempt to connect may take.
	connectMost = 3 * time.Second
)

// Client talks to a cluster through any of its nodes. It is safe for use by
// many goroutines; workers may share it.
type Client struct {
	nodes []*node
	// at is the node that calls go to, until it fails.
	at     atomic.Uint32
	log    *slog.Logger
	life   context.Context
	finish context.CancelFunc
	// held is what submissions wait for at home.
	held restraint
	// lead is where submissions go.
	lead lead
	// retries is called about failed tries; may be nil.
	retries func(FailedTry)
	// submitter makes submissions and runs them, within all that stands around that.
	submitter Submitter
	// patience bounds each call; 0 leaves it the caller's time.
	patience time.Duration
}

// node is one address with its lazy connection.
type node struct {
	address string
	conn    *grpc.ClientConn
	jobs    rotav1.JobsClient
	workers rotav1.WorkersClient
	queues  rotav1.QueuesClient
	tenants rotav1.TenantsClient
	keys    rotav1.KeysClient
	cluster rotav1.ClusterClient
	events  rotav1.EventsClient
	flows   rotav1.WorkflowsClient
	auth    rotav1.AuthClient

	schedules rotav1.SchedulesClient
	batches   rotav1.BatchesClient
	webhooks  rotav1.WebhooksClient
	plans     rotav1.PlansClient
	// shows is how a token is shown there, nil for none.
	shows *bearer
	// noJWT is why no identity token is shown there, nil where one may be.
	noJWT error
}

type settings struct {
	tls      func() (*tls.Config, error)
	insecure bool
	log      *slog.Logger
	dial     func(ctx context.Context, address string) (net.Conn, error)
	heedless bool
	retries  func(FailedTry)
	patience time.Duration
	token    func() (string, error)
	// unary and streams stand around calls on the wire, the first outermost.
	unary   []grpc.UnaryClientInterceptor
	streams []grpc.StreamClientInterceptor
	// submitters stand around Submit, the first outermost.
	submitters []func(next Submitter) Submitter
}

// Option changes how a client connects.
type Option func(*settings)

// WithTLS encrypts connections and authenticates both ends as the config says.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		return WithTLSFrom(nil)
	}
	return WithTLSFrom(func() (*tls.Config, error) { return config, nil })
}

// WithTLSFrom is WithTLS with a config that is asked for at each connection: authorities and
// certificates may be replaced while the client runs.
func WithTLSFrom(config func() (*tls.Config, error)) Option {
	return func(s *settings) { s.tls = config }
}

// WithInsecure spells out that connections are in clear text. It is what a
// client does without WithTLS, and contradicts that option.
func WithInsecure() Option { return func(s *settings) { s.insecure = true } }

// WithLogger sets where the client logs what happens to its connections. Without it
// nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithDialer replaces the way to reach an address, for tests and tunnels.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// WithoutRestraint sends every submission at once, also where the cluster asked for a
// delay: for measuring how it copes.
func WithoutRestraint() Option { return func(s *settings) { s.heedless = true } }

// WithPatience has each call that is tried again, and each page of a list, given up after
// so long: for people who wait for it. Streams of events and waits have their own time.
func WithPatience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// Dial returns a client of the nodes at these addresses, each host:port. It
// connects lazily: an unreachable cluster shows in the first call.
//
// The address unix:PATH is a node's own socket, DATA/rota.sock. The system says there who calls:
// the account that the node runs as, or root, may make tokens, read status and save backups.
// Neither TLS nor a token is used.
func Dial(addrs []string, opts ...Option) (*Client, error) {
	s := settings{log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(&s)
	}
	if s.tls != nil && s.insecure {
		return nil, rota.Refusef(rota.KindInvalid, "tls", "WithTLS and WithInsecure contradict each other")
	}
	c := &Client{log: s.log, held: restraint{off: s.heedless}, retries: s.retries, patience: s.patience}
	c.life, c.finish = context.WithCancel(context.Background())
	c.submitter = func(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error) {
		return newSubmission(c, jobs).run(ctx, c)
	}
	for i := len(s.submitters) - 1; i >= 0; i-- {
		c.submitter = s.submitters[i](c.submitter)
	}
	for _, a := range addrs {
		a = strings.TrimSpace(a)
		if a == "" || slices.ContainsFunc(c.nodes, func(n *node) bool { return n.address == a }) {
			continue
		}
		n, err := newNode(a, &s)
		if err != nil {
			_ = c.Close()
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	if len(c.nodes) == 0 {
		c.finish()
		return nil, rota.Refusef(rota.KindInvalid, "addr", "no node address given: pass at least one host:port")
	}
	return c, nil
}

func ofSocket(address string) bool { return strings.HasPrefix(address, "unix:") }

func newNode(address string, s *settings) (*node, error) {
	if s.dial == nil && !ofSocket(address) {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, rota.Refusef(rota.KindInvalid, "addr", "addr: got %q; use host:port", address)
		}
	}
	secure := insecure.NewCredentials()
	if s.tls != nil && !ofSocket(address) {
		secure = freshTLS{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13}), s.tls}
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: backoffLeast, Multiplier: 1.6, Jitter: 0.2, MaxDelay: backoffMost,
			},
			MinConnectTimeout: connectMost,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveLost}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(receiveMost), grpc.ForceCodecV2(words.Codec())),
		grpc.WithStaticStreamWindowSize(words.StreamWindow), grpc.WithStaticConnWindowSize(words.ConnWindow),
		grpc.WithDisableServiceConfig(),
		grpc.WithChainUnaryInterceptor(s.unary...), grpc.WithChainStreamInterceptor(s.streams...),
	}
	shows, err := bearerOf(address, s)
	if err != nil {
		return nil, err
	}
	if shows != nil {
		options = append(options, grpc.WithPerRPCCredentials(shows))
	}
	if s.dial != nil {
		options = append(options, grpc.WithContextDialer(s.dial))
	}
	// The dialer resolves names, at every dial anew; the library need not.
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, rota.Refusef(rota.KindInvalid, "addr", "addr: got %q: %v", address, err)
	}
	return &node{
		address: address, conn: conn,
		jobs: rotav1.NewJobsClient(conn), workers: rotav1.NewWorkersClient(conn),
		queues: rotav1.NewQueuesClient(conn), tenants: rotav1.NewTenantsClient(conn), keys: rotav1.NewKeysClient(conn),
		cluster: rotav1.NewClusterClient(conn), events: rotav1.NewEventsClient(conn),
		flows: rotav1.NewWorkflowsClient(conn), auth: rotav1.NewAuthClient(conn), schedules: rotav1.NewSchedulesClient(conn), batches: rotav1.NewBatchesClient(conn), webhooks: rotav1.NewWebhooksClient(conn), plans: rotav1.NewPlansClient(conn),
		shows: shows, noJWT: hidden(address, s, "jwt"),
	}, nil
}

// Close ends all connections and calls. Workers should have run out before.
func (c *Client) Close() error {
	c.finish()
	var first error
	for _, n := range c.nodes {
		if err := n.conn.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// NewJobID returns a new job id: a ULID, so ids sort by the time of their making.
// The client library makes ids, never the server (SPEC §2.7).
func NewJobID() rota.JobID { return rota.JobID(ulid.Make().String()) }

// addressesOf lists the nodes for messages to people.
func addressesOf(c *Client) string {
	all := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		all[i] = n.address
	}
	return strings.Join(all, ", ")
}
