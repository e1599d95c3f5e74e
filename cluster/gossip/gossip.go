package gossip

import (
	"context"
	"errors"
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
	"github.com/rotasched/rota/internal/secret"
)

// Meta is what a node says of itself in gossip (SPEC §13.4).
type Meta struct {
	ClusterID rota.ClusterID
	// API, Raft and Admin are addresses H:P; Admin may be empty.
	API, Raft, Admin string
	// Version is the version of the binary.
	Version string
	// BootstrapExpect is --bootstrap-expect, 0 for none.
	BootstrapExpect int
	// HasState reports that the node's raft stores are not empty.
	HasState bool
	// Identity is that of the data directory, 32 hex digits.
	Identity string
}

// Member is a node as gossip knows it.
type Member struct {
	ID rota.NodeID
	Meta
	// Gossip is its gossip address H:P.
	Gossip string
	// Alive is false of one that left or died; it stays listed for a while.
	Alive bool
}

// Options are what Start needs to know.
type Options struct {
	// ID is the node's unique name.
	ID rota.NodeID
	// Cluster is the --cluster name, the label of every packet.
	Cluster string
	// Bind is H:P; a name is resolved once. Advertise is the address that others use,
	// empty for Bind.
	Bind, Advertise string
	// KeyFile holds the keys, one a line, in hex or base64 of 16, 24 or 32 bytes, or a raw one:
	// the first seals, each opens. It is read again while the node runs. Empty is no
	// encryption, which only loopback or Insecure permits.
	KeyFile  string
	Insecure bool
	// Join are addresses H:P, tried in the background for ever.
	Join []string
	// Meta is what this node says at first; see UpdateMeta.
	Meta Meta
	// OnConflict is called, at most once a minute and id, for two nodes with one id: at
	// another address, or with another data directory. It must not block.
	OnConflict func(existing, other Member)
	// OnRefused is called after each try of an address of Join: whether the node there has
	// refused this one's gossip several times in a row. It must not block. May be nil.
	OnRefused func(address string, refused bool)
	// Logger receives what is worth a line; nil discards it.
	Logger *slog.Logger

	// joinBackoffMax shortens tests.
	joinBackoffMax time.Duration
}

const (
	// protocolVersion is the version of what rota puts into gossip.
	protocolVersion = 1
	// reclaimAfter is when a dead node's name may come back at another address;
	// memberlist's own default would refuse it for ever.
	reclaimAfter = 30 * time.Second
	// tcpTimeout bounds a whole exchange of state.
	tcpTimeout = 3 * time.Second
	// updateWait bounds the wait for new metadata to go out.
	updateWait = 500 * time.Millisecond
)

// knownMember is a member and when it became what it is.
type knownMember struct {
	Member
	since time.Time
}

// Gossip is this node's part in gossip.
type Gossip struct {
	opts    Options
	list    *memberlist.Memberlist
	changed chan struct{}
	dirty   chan struct{}
	keys    *keys // nil without a key file
	lines   logs.Limiter
	cancel  context.CancelFunc
	loops   sync.WaitGroup
	once    sync.Once
	closed  error

	mu      sync.Mutex // guards what follows; taken within memberlist's lock
	meta    Meta
	encoded []byte
	members map[rota.NodeID]knownMember
}

// Start binds, and looks for the nodes of opts.Join in the background.
func Start(opts Options) (*Gossip, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.joinBackoffMax <= 0 {
		opts.joinBackoffMax = joinBackoffMax
	}
	if err := rota.CheckID("node id", opts.ID); err != nil {
		return nil, err
	}
	encoded, err := encodeMeta(opts.Meta)
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
	if err := g.listen(config); err != nil {
		return nil, fmt.Errorf("start gossip on %s: %w", opts.Bind, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	for _, address := range opts.Join {
		g.loops.Go(func() { g.joinLoop(ctx, address) })
	}
	g.loops.Go(func() { g.seekLoop(ctx) })
	if g.keys != nil {
		g.loops.Go(func() { secret.Follow(ctx, g.keys.follow) })
	}
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

// Addr returns the gossip address that others use.
func (g *Gossip) Addr() string { return addressOf(g.list.LocalNode()) }

// UpdateMeta changes what this node says of itself. It returns at once; the
// others learn it within a second. change must not call the Gossip.
func (g *Gossip) UpdateMeta(change func(m *Meta)) error {
	g.mu.Lock()
	next := g.meta
	change(&next)
	encoded, err := encodeMeta(next)
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

// Leave announces that this node goes on purpose, and waits until one node
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
			_ = g.list.UpdateNode(updateWait)
		}
	}
}

func (g *Gossip) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// portTries is how many free ports are tried: one that is free for TCP may not be for UDP.
const portTries = 10

// listen binds, behind the gate, and starts memberlist there.
func (g *Gossip) listen(config *memberlist.Config) (err error) {
	var inner *memberlist.NetTransport
	for try := range portTries {
		inner, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{config.BindAddr},
			BindPort: config.BindPort, Logger: config.Logger})
		if err == nil || config.BindPort != 0 || try == portTries-1 {
			break
		}
	}
	if err != nil {
		return err
	}
	if config.BindPort == 0 {
		config.BindPort = inner.GetAutoBindPort()
	}
	if config.AdvertisePort == 0 {
		config.AdvertisePort = config.BindPort
	}
	behind := newGate(inner, g.opts.Cluster, g.keys, g.opts.Logger, &g.lines)
	config.Transport = behind
	if g.list, err = memberlist.Create(config); err != nil {
		return errors.Join(err, behind.Shutdown())
	}
	return nil
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
		if g.keys, err = readKeys(g.opts.KeyFile, g.opts.Logger); err != nil {
			return nil, err
		}
		config.Keyring = g.keys.ring
	case !ip.IsLoopback() && !g.opts.Insecure:
		return nil, rota.Refusef(rota.KindDenied, "gossip", "gossip on %s without a key lets everyone who reaches it "+
			"pose as a node. Give --gossip-key-file (make one with: openssl rand -base64 32), listen on a "+
			"loopback address, or say --insecure", g.opts.Bind)
	}
	config.Name = string(g.opts.ID)
	config.Label = g.opts.Cluster
	config.EnableCompression = false // the gate takes nothing that is compressed
	config.DeadNodeReclaimTime = reclaimAfter
	config.TCPTimeout = tcpTimeout
	config.DelegateProtocolVersion = protocolVersion
	config.DelegateProtocolMin, config.DelegateProtocolMax = protocolVersion, protocolVersion
	d := delegate{g}
	config.Delegate, config.Events, config.Conflict, config.Merge, config.Alive = d, d, d, d, d
	config.Logger = log.New(libraryLog{g.opts.Logger, &g.lines}, "", 0)
	return config, nil
}
