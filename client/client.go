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
	// maxReceive is the largest message accepted from a node, in bytes.
	maxReceive = 4 << 20
	// keepaliveEvery is how long a connection with open calls may be silent before it is pinged (nodes allow a ping
	// twice as often). keepaliveLost is how long to wait for the answer before the connection counts as dead.
	keepaliveEvery = 20 * time.Second
	keepaliveLost  = 10 * time.Second
	// maxConnect bounds one attempt to connect.
	maxConnect = 3 * time.Second
)

// Client calls a cluster through any of its nodes. It is safe for concurrent use; workers may share it.
type Client struct {
	nodes []*node
	// at is the index of the node that calls go to, until it fails.
	at     atomic.Uint32
	log    *slog.Logger
	life   context.Context
	finish context.CancelFunc
	// held holds submissions back after the cluster asked for a delay.
	held restraint
	// lead is the node that submissions go to.
	lead lead
	// retries is called for each failed try; may be nil.
	retries func(FailedTry)
	// submitter performs submissions, including all configured middleware.
	submitter Submitter
	// patience bounds each call; 0 leaves only the caller's deadline.
	patience time.Duration
}

// node is one address with its connection, which is made on first use.
type node struct {
	address string
	conn    *grpc.ClientConn
	jobs    rotav1.JobsClient
	workers rotav1.WorkersClient
	queues  rotav1.QueuesClient
	tenants rotav1.TenantsClient
	keys    rotav1.KeysClient
	budgets rotav1.BudgetsClient
	cluster rotav1.ClusterClient
	events  rotav1.EventsClient
	flows   rotav1.WorkflowsClient
	auth    rotav1.AuthClient

	schedules rotav1.SchedulesClient
	batches   rotav1.BatchesClient
	webhooks  rotav1.WebhooksClient
	plans     rotav1.PlansClient
	// shows attaches the access token; nil for none.
	shows *bearer
	// noJWT is the reason why no JWT is sent to this node; nil where one may be sent.
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
	// unary and streams intercept calls on the wire, the first outermost.
	unary   []grpc.UnaryClientInterceptor
	streams []grpc.StreamClientInterceptor
	// submitters wrap Submit, the first outermost.
	submitters []func(next Submitter) Submitter
}

// Option configures a client.
type Option func(*settings)

// WithTLS encrypts connections and authenticates both ends as config sets.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		return WithTLSFrom(nil)
	}
	return WithTLSFrom(func() (*tls.Config, error) { return config, nil })
}

// WithTLSFrom is like WithTLS, but calls config at each connection: authorities and certificates may be replaced while
// the client runs.
func WithTLSFrom(config func() (*tls.Config, error)) Option {
	return func(s *settings) { s.tls = config }
}

// WithInsecure states explicitly that connections are in clear text. This is the default without WithTLS; the two
// options conflict.
func WithInsecure() Option { return func(s *settings) { s.insecure = true } }

// WithLogger sets the logger for connection events. By default nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithDialer replaces the function that connects to an address, for tests and tunnels.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// WithoutRestraint sends every submission at once, even where the cluster asked for a delay. It is for measuring how
// the cluster handles overload.
func WithoutRestraint() Option { return func(s *settings) { s.heedless = true } }

// WithPatience bounds the time of each retried call and of each page of a listing, for interactive use. It does not
// apply to streams of events and waits.
func WithPatience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// Dial returns a client for the nodes at these addresses, each host:port. It connects on first use: an unreachable
// cluster shows as an error of the first call.
//
// The address unix:PATH is a node's own socket, DATA/rota.sock. The operating system identifies the caller there: the
// account that the node runs as, or root, may create tokens, read status and save backups. No TLS or token is used.
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
				BaseDelay: minBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff,
			},
			MinConnectTimeout: maxConnect,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveLost}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive), grpc.ForceCodecV2(words.Codec())),
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
	// The dialer resolves names again at every dial; the library need not.
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, rota.Refusef(rota.KindInvalid, "addr", "addr: got %q: %v", address, err)
	}
	return &node{
		address: address, conn: conn,
		jobs: rotav1.NewJobsClient(conn), workers: rotav1.NewWorkersClient(conn),
		queues: rotav1.NewQueuesClient(conn), tenants: rotav1.NewTenantsClient(conn), keys: rotav1.NewKeysClient(conn),
		budgets: rotav1.NewBudgetsClient(conn),
		cluster: rotav1.NewClusterClient(conn), events: rotav1.NewEventsClient(conn),
		flows: rotav1.NewWorkflowsClient(conn), auth: rotav1.NewAuthClient(conn),
		schedules: rotav1.NewSchedulesClient(conn), batches: rotav1.NewBatchesClient(conn),
		webhooks: rotav1.NewWebhooksClient(conn), plans: rotav1.NewPlansClient(conn),
		shows: shows, noJWT: hidden(address, s, "jwt"),
	}, nil
}

// Close ends all connections and calls. Let workers finish first.
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

// NewJobID returns a new job id: a ULID, so ids sort by creation time. The client library makes ids, never the server
// (SPEC §2.7).
func NewJobID() rota.JobID { return rota.JobID(ulid.Make().String()) }

// addressesOf lists the nodes for error messages.
func addressesOf(c *Client) string {
	all := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		all[i] = n.address
	}
	return strings.Join(all, ", ")
}
