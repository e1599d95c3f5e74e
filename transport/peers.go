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
	// peerTimeout is the timeout of a call without a deadline.
	peerTimeout = 5 * time.Second
	// peerIdle is how long a connection may be unused before it is dropped.
	peerIdle = 5 * time.Minute
	// peerBackoff is the longest wait between two attempts to connect: a restarted node must be reached at once.
	peerBackoff = 500 * time.Millisecond
	// peerDial bounds one attempt to connect.
	peerDial = 2 * time.Second
	// peerSign and peerSilence are the keepalive interval and timeout that detect a peer that vanished silently.
	peerSign, peerSilence = 12 * time.Second, 4 * time.Second
)

// PeerOptions holds everything that Peers needs.
type PeerOptions struct {
	// Self is the calling node.
	Self rota.NodeID
	// Name is the --cluster name, ClusterID the id, empty until known.
	Name      string
	ClusterID func() rota.ClusterID
	// TLS is used when set; NodeOf then returns the owner of the answering certificate, which must be the node that is
	// called.
	TLS    *tls.Config
	NodeOf func(tls.ConnectionState) (rota.NodeID, error)
	// Logger receives messages that are not part of an answer; nil means slog.Default.
	Logger *slog.Logger
	// Dial opens the connections; nil means TCP. Tests inject faults here.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Peers calls other nodes. It satisfies cluster.Peers: it never retries, all its errors are *rota.Error, and
// Unavailable means that the outcome is unknown. Errors of the other node are returned unchanged.
type Peers struct {
	options PeerOptions
	log     *slog.Logger
	mu      sync.Mutex
	peers   map[peer.NodeAddress]*peerConn
	closed  bool
	// identity and mayCall are set by Calls.
	identity string
	mayCall  func(rota.NodeID) error
}

// peerConn is the connection to one node at one address, dialled on its first call.
type peerConn struct {
	conn  *grpc.ClientConn
	node  rotav1.NodeClient
	calls int
	used  time.Time
}

// Calls sets the data directory identity that this node calls with. mayCall rejects nodes that cannot be members: they
// receive only Introduce and Inspect.
func (p *Peers) Calls(identity string, mayCall func(rota.NodeID) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identity, p.mayCall = identity, mayCall
}

// NewPeers returns a Peers that has no connections yet.
func NewPeers(options PeerOptions) *Peers {
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.ClusterID == nil {
		options.ClusterID = func() rota.ClusterID { return "" }
	}
	return &Peers{options: options, log: options.Logger, peers: make(map[peer.NodeAddress]*peerConn)}
}

// Forward sends commands to the node that should be the leader.
func (p *Peers) Forward(ctx context.Context,
	to peer.NodeAddress, commands []byte) (outcomes []byte, err error) {
	err = p.call(ctx, to, func(ctx context.Context, node rotav1.NodeClient, me *rotav1.Caller) error {
		answer, err := node.Forward(ctx, &rotav1.ForwardRequest{Caller: me, Commands: commands})
		outcomes = answer.GetOutcomes()
		return err
	})
	return outcomes, err
}

// Beat sends the beats that this node collected.
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

// Inspect queries a node about itself.
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

// CheckAt makes a node check its invariants at an index.
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

// Close ends all connections and rejects further calls.
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

// call makes a call to a member.
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

// meet makes a call that may go to a node before its membership is known.
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

// peerError returns the other node's error unchanged. A transport failure names the node, and is Unavailable: the
// outcome of the call is unknown.
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

// take returns the connection to an address, dialled lazily, with the identity to call with, and drops connections that
// have not been used for long.
func (p *Peers) take(to peer.NodeAddress) (conn *peerConn, identity string, err error) {
	if to.API == "" {
		return nil, "", rota.Refusef(rota.KindUnavailable, string(to.ID), "the address of node %s is not known yet",
			to.ID)
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
			return nil, "", &rota.Error{Kind: rota.KindUnavailable, Subject: string(to.ID), Text: "dial " + to.API,
				Cause: err}
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
