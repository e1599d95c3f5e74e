package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// peerTimeout is what a call without a deadline gets.
	peerTimeout = 5 * time.Second
	// peerIdle drops a connection that nobody used for so long.
	peerIdle = 5 * time.Minute
	// peerBackoff is the longest wait between two tries to connect: a node that
	// was restarted has to be reached at once.
	peerBackoff = 500 * time.Millisecond
	// peerDial bounds one try to connect.
	peerDial = 2 * time.Second
	// peerSign and peerSilence find a peer that vanished without a word.
	peerSign, peerSilence = 12 * time.Second, 4 * time.Second
)

// PeerOptions is everything that Peers needs.
type PeerOptions struct {
	// Self is the calling node.
	Self rota.NodeID
	// Name is the --cluster name, ClusterID the id, empty until known.
	Name      string
	ClusterID func() rota.ClusterID
	// TLS is used when set; NodeOf then tells whose certificate answers: it must be that of
	// the node that is meant.
	TLS    *tls.Config
	NodeOf func(tls.ConnectionState) (rota.NodeID, error)
	// Logger takes what is not an answer to anybody; nil is slog.Default.
	Logger *slog.Logger
	// Dial makes the connections; nil is TCP. Tests put faults here.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Peers calls other nodes. It satisfies cluster.Peers: it never retries, all its
// errors are *rota.Error, and Unavailable means that the outcome is unknown.
// Errors that the other node made come as that node made them.
type Peers struct {
	options PeerOptions
	log     *slog.Logger
	mu      sync.Mutex
	peers   map[peer.NodeAddress]*peerConn
	closed  bool
	// identity and mayCall are as Calls set them.
	identity string
	mayCall  func(rota.NodeID) error
}

// peerConn is the connection to one node at one address, dialled with its first call.
type peerConn struct {
	conn  *grpc.ClientConn
	node  rotav1.NodeClient
	calls int
	used  time.Time
}

// Calls sets the identity of the data directory that this node calls with. mayCall refuses
// nodes that may be no members: they are asked nothing but Introduce and Inspect.
func (p *Peers) Calls(identity string, mayCall func(rota.NodeID) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identity, p.mayCall = identity, mayCall
}

// NewPeers dials nobody yet.
func NewPeers(options PeerOptions) *Peers {
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.ClusterID == nil {
		options.ClusterID = func() rota.ClusterID { return "" }
	}
	return &Peers{options: options, log: options.Logger, peers: make(map[peer.NodeAddress]*peerConn)}
}

// Forward hands commands to the node that should lead.
func (p *Peers) Forward(ctx context.Context,
	to peer.NodeAddress, commands []byte) (outcomes []byte, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Forward(ctx, &rotav1.ForwardRequest{Caller: me, Commands: commands})
		outcomes = answer.GetOutcomes()
		return err
	})
	return outcomes, err
}

// Beat hands over the beats that this node collected.
func (p *Peers) Beat(ctx context.Context,
	to peer.NodeAddress, beats []peer.Beat) (a peer.BeatAnswer, err error) {
	wire := make([]*rotav1.WorkerBeat, len(beats))
	for i := range beats {
		wire[i] = words.BeatToWire(&beats[i])
	}
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Beat(ctx, &rotav1.NodeBeatRequest{Caller: me, Beats: wire})
		a = words.BeatAnswerFromWire(answer)
		return err
	})
	return a, err
}

// Barrier asks the leader for the index of a read barrier.
func (p *Peers) Barrier(ctx context.Context, to peer.NodeAddress) (index rota.Index, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Barrier(ctx, &rotav1.BarrierRequest{Caller: me})
		index = rota.Index(answer.GetIndex())
		return err
	})
	return index, err
}

// Inspect asks a node of itself.
func (p *Peers) Inspect(ctx context.Context,
	to peer.NodeAddress, digestsAt []rota.Index) (i peer.Inspection, err error) {
	at := make([]uint64, len(digestsAt))
	for n, index := range digestsAt {
		at[n] = uint64(index)
	}
	err = p.meet(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Inspect(ctx, &rotav1.InspectRequest{Caller: me, DigestsAt: at})
		if err == nil {
			i, err = words.InspectionFromWire(answer)
		}
		return err
	})
	return i, err
}

// CheckAt has a node walk its invariants at an index.
func (p *Peers) CheckAt(ctx context.Context,
	to peer.NodeAddress, index rota.Index) (v rota.NodeVerdict, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Check(ctx, &rotav1.CheckRequest{Caller: me, Index: uint64(index)})
		if err == nil {
			v, err = words.NodeVerdictFromWire(answer.GetVerdict())
		}
		return err
	})
	return v, err
}

// Close ends all connections and refuses further calls.
func (p *Peers) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for address, peer := range p.peers {
		_ = peer.conn.Close()
		delete(p.peers, address)
	}
	return nil
}

// call makes a call of members.
func (p *Peers) call(ctx context.Context, to peer.NodeAddress,
	do func(context.Context, rotav1.NodeClient, *rotav1.Caller) error) error {
	p.mu.Lock()
	mayCall := p.mayCall
	p.mu.Unlock()
	if mayCall != nil {
		if err := mayCall(to.ID); err != nil {
			return err
		}
	}
	return p.meet(ctx, to, do)
}

// meet makes a call that a node may be asked before anybody knows whether it is a member.
func (p *Peers) meet(ctx context.Context, to peer.NodeAddress,
	do func(context.Context, rotav1.NodeClient, *rotav1.Caller) error) error {
	peer, identity, err := p.take(to)
	if err != nil {
		return err
	}
	defer p.release(peer)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, peerTimeout)
		defer cancel()
	}
	me := &rotav1.Caller{
		Node: string(p.options.Self), ClusterName: p.options.Name, ClusterId: string(p.options.ClusterID()),
		Identity: identity,
	}
	if err := do(ctx, peer.node, me); err != nil {
		return peerError(to, err)
	}
	return nil
}

// peerError keeps the other node's refusal as it is. What went wrong on the way
// names the node, and is Unavailable: nobody knows what came of the call.
func peerError(to peer.NodeAddress, err error) error {
	e := words.FromStatus(err)
	if st, ok := status.FromError(err); !ok || len(st.Details()) > 0 {
		return e
	}
	if e.Kind == rota.KindTimeout {
		e.Kind = rota.KindUnavailable
	}
	e.Subject, e.Text = string(to.ID), "node "+string(to.ID)+" at "+to.API+": "+e.Text
	return e
}

// take returns the connection to an address, dialled lazily, with the identity to call with,
// and drops those that nobody used for long.
func (p *Peers) take(to peer.NodeAddress) (conn *peerConn, identity string, err error) {
	if to.API == "" {
		return nil, "", rota.Refusef(rota.KindUnavailable, string(to.ID), "the address of node %s is not known yet", to.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, "", rota.Refusef(rota.KindUnavailable, string(to.ID), "this node is shutting down")
	}
	now := time.Now()
	for address, old := range p.peers {
		if old.calls == 0 && now.Sub(old.used) > peerIdle {
			_ = old.conn.Close()
			delete(p.peers, address)
		}
	}
	found, ok := p.peers[to]
	if !ok {
		conn, err := grpc.NewClient("passthrough:///"+to.API, p.settings(to.ID)...)
		if err != nil {
			return nil, "", &rota.Error{Kind: rota.KindUnavailable, Subject: string(to.ID), Text: "dial " + to.API, Cause: err}
		}
		found = &peerConn{conn: conn, node: rotav1.NewNodeClient(conn)}
		p.peers[to] = found
		p.log.Debug("peer is called for the first time", "node", to.ID, "address", to.API)
	}
	found.calls++
	found.used = now
	return found, p.identity, nil
}

func (p *Peers) release(peer *peerConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer.calls--
	peer.used = time.Now()
}

func (p *Peers) settings(meant rota.NodeID) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if p.options.TLS != nil {
		creds = trustingCreds{credentials.NewTLS(p.options.TLS), identify(p.options.NodeOf).is(meant), func(err error) {
			p.log.Warn("connection to a node closed: its certificate no longer counts", "error", err)
		}}
	}
	settings := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: peerBackoff,
			},
			MinConnectTimeout: peerDial,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: peerSign, Timeout: peerSilence, PermitWithoutStream: true,
		}),
		grpc.WithIdleTimeout(peerIdle),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(4 * limits.MaxMessageBytes)),
		grpc.WithStaticStreamWindowSize(words.StreamWindow), grpc.WithStaticConnWindowSize(words.ConnWindow),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
	}
	if p.options.Dial != nil {
		settings = append(settings, grpc.WithContextDialer(p.options.Dial))
	}
	return settings
}
