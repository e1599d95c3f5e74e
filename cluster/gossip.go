package cluster

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// GossipMeta is what a node tells of itself in gossip (SPEC §13.4). Gossip may
// suggest, never decide: it is decoded as hostile input.
type GossipMeta struct {
	ClusterID rota.ClusterID
	// API, Raft and Admin are addresses H:P; Admin may be empty.
	API, Raft, Admin string
	// Version is the version of the binary.
	Version string
	// BootstrapExpect is --bootstrap-expect, 0 for none.
	BootstrapExpect int
	// HasState says that the node's raft stores are not empty.
	HasState bool
	// Identity is that of the data directory, 32 hex digits.
	Identity string
}

// Member is a node as gossip knows it.
type Member struct {
	ID rota.NodeID
	GossipMeta
	// Gossip is its gossip address H:P.
	Gossip string
	// Alive is false of one that left or died; it stays listed for a while.
	Alive bool
}

// GossipOptions are what StartGossip needs to know.
type GossipOptions struct {
	// ID is the node's unique name.
	ID rota.NodeID
	// Cluster is the --cluster name, the label of every packet.
	Cluster string
	// Bind is H:P; a name is resolved once. Advertise is what others are told,
	// empty for Bind.
	Bind, Advertise string
	// KeyFile holds the key, raw, hex or base64 of 16, 24 or 32 bytes. Empty is
	// no encryption, which only loopback or Insecure permits.
	KeyFile  string
	Insecure bool
	// Join are addresses H:P tried in the background for ever.
	Join []string
	// Meta is what this node tells at first; see UpdateMeta.
	Meta GossipMeta
	// OnConflict is told, at most once a minute a name, of two nodes with one id:
	// another address, or another data directory. It must not block.
	OnConflict func(existing, other Member)
	// Logger takes what is worth a line. nil is silence.
	Logger *slog.Logger

	// joinBackoffMax shortens tests.
	joinBackoffMax time.Duration
}

const (
	// gossipProtocol is the version of what rota puts into gossip.
	gossipProtocol = 1
	// gossipReclaim is when a dead node's name may come back at another address;
	// memberlist's own default would refuse it for ever.
	gossipReclaim = 30 * time.Second
	// gossipTCPTimeout bounds a whole exchange of state.
	gossipTCPTimeout = 3 * time.Second
	// gossipUpdateWait bounds the wait for new metadata to go out.
	gossipUpdateWait = 500 * time.Millisecond
)

// knownMember is a member and when it became what it is.
type knownMember struct {
	Member
	since time.Time
}

// Gossip finds the other nodes. It may suggest, never decide: no membership, no
// lease, no leader follows from it alone.
type Gossip struct {
	opts    GossipOptions
	list    *memberlist.Memberlist
	changed chan struct{}
	dirty   chan struct{}
	lines   logs.Limiter
	cancel  context.CancelFunc
	loops   sync.WaitGroup
	once    sync.Once
	closed  error

	mu      sync.Mutex // guards what follows; taken within memberlist's lock
	meta    GossipMeta
	encoded []byte
	members map[rota.NodeID]knownMember
}

// StartGossip binds, and looks for the nodes of opts.Join in the background.
func StartGossip(opts GossipOptions) (*Gossip, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.joinBackoffMax <= 0 {
		opts.joinBackoffMax = joinBackoffMax
	}
	if err := rota.CheckID("node id", opts.ID); err != nil {
		return nil, err
	}
	encoded, err := encodeGossipMeta(opts.Meta)
	if err != nil {
		return nil, err
	}
	g := &Gossip{
		opts:    opts,
		changed: make(chan struct{}, 1),
		dirty:   make(chan struct{}, 1),
		meta:    opts.Meta,
		encoded: encoded,
		members: make(map[rota.NodeID]knownMember),
	}
	config, err := g.config()
	if err != nil {
		return nil, err
	}
	if g.list, err = memberlist.Create(config); err != nil {
		return nil, fmt.Errorf("start gossip on %s: %w", opts.Bind, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	for _, address := range opts.Join {
		g.loops.Go(func() { g.joinLoop(ctx, address) })
	}
	g.loops.Go(func() { g.seekLoop(ctx) })
	g.loops.Go(func() { g.tellLoop(ctx) })
	return g, nil
}

// Members lists every node known, this one included, by id. Those of another
// cluster, met before this node knew its own, are left out.
func (g *Gossip) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Member, 0, len(g.members))
	for _, member := range g.members {
		if g.meta.ClusterID == "" || member.ClusterID == "" || member.ClusterID == g.meta.ClusterID {
			all = append(all, member.Member)
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

// Changed receives a value after Members may have changed; many changes may be
// one value. It is never closed, and for one reader.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// Addr is the gossip address that others are told.
func (g *Gossip) Addr() string { return addressOf(g.list.LocalNode()) }

// UpdateMeta changes what this node tells of itself. It returns at once; the
// others learn it within a second. change must not call the Gossip.
func (g *Gossip) UpdateMeta(change func(m *GossipMeta)) error {
	g.mu.Lock()
	next := g.meta
	change(&next)
	encoded, err := encodeGossipMeta(next)
	if err == nil {
		g.meta, g.encoded = next, encoded
	}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case g.dirty <- struct{}{}:
	default:
	}
	g.wake()
	return nil
}

// Leave tells the others that this node goes on purpose, and waits until one
// has heard or timeout has passed. Close must follow.
func (g *Gossip) Leave(timeout time.Duration) error {
	g.cancel()
	g.loops.Wait()
	return g.list.Leave(timeout)
}

// Close ends gossip. It may be called again.
func (g *Gossip) Close() error {
	g.once.Do(func() {
		g.cancel()
		g.loops.Wait()
		g.closed = g.list.Shutdown()
	})
	return g.closed
}

// tellLoop sends new metadata around.
func (g *Gossip) tellLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.dirty:
			// That nobody heard within the wait is no fault: the next exchange of
			// state carries it.
			_ = g.list.UpdateNode(gossipUpdateWait)
		}
	}
}

func (g *Gossip) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// config is memberlist's configuration for a LAN, with every default mended
// that is unsafe or slow to start.
func (g *Gossip) config() (*memberlist.Config, error) {
	config := memberlist.DefaultLANConfig()
	ip, port, err := resolveAddress(context.Background(), g.opts.Bind)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	config.BindAddr, config.BindPort, config.AdvertisePort = ip.String(), port, port
	if g.opts.Advertise != "" {
		ip, port, err := resolveAddress(context.Background(), g.opts.Advertise)
		if err != nil {
			return nil, fmt.Errorf("gossip: %w", err)
		}
		config.AdvertiseAddr, config.AdvertisePort = ip.String(), port
	}
	switch {
	case g.opts.KeyFile != "":
		if config.SecretKey, err = readGossipKey(g.opts.KeyFile); err != nil {
			return nil, err
		}
	case !ip.IsLoopback() && !g.opts.Insecure:
		return nil, rota.Refusef(rota.Denied, "gossip", "gossip on %s without a key lets everyone who reaches it "+
			"pose as a node. Give --gossip-key-file (make one with: openssl rand -base64 32), listen on a "+
			"loopback address, or say --insecure", g.opts.Bind)
	}
	config.Name = string(g.opts.ID)
	config.Label = g.opts.Cluster
	config.EnableCompression = false // v0.6.0 puts no cap on what it inflates
	config.DeadNodeReclaimTime = gossipReclaim
	config.TCPTimeout = gossipTCPTimeout
	config.DelegateProtocolVersion = gossipProtocol
	config.DelegateProtocolMin, config.DelegateProtocolMax = gossipProtocol, gossipProtocol
	delegate := gossipDelegate{g}
	config.Delegate, config.Events, config.Conflict = delegate, delegate, delegate
	config.Merge, config.Alive = delegate, delegate
	config.Logger = log.New(gossipLog{g.opts.Logger, &g.lines}, "", 0)
	return config, nil
}
