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

// Meta is a node's metadata in gossip (SPEC §13.4).
type Meta struct {
	ClusterID rota.ClusterID
	// API, Raft and Admin are addresses host:port; Admin may be empty.
	API, Raft, Admin string
	// Version is the version of the binary.
	Version string
	// BootstrapExpect is --bootstrap-expect, 0 for none.
	BootstrapExpect int
	// HasState reports that the node's raft stores are not empty.
	HasState bool
	// Identity is the identity of the data directory, 32 hex digits.
	Identity string
}

// Member is a node known to gossip.
type Member struct {
	ID rota.NodeID
	Meta
	// Gossip is its gossip address host:port.
	Gossip string
	// Alive is false if the node left or died; it stays listed for a while.
	Alive bool
}

// Options configures Start.
type Options struct {
	// ID is the node's unique name.
	ID rota.NodeID
	// Cluster is the --cluster name, the label of every packet.
	Cluster string
	// Bind is host:port; a name is resolved once. Advertise is the address that other nodes use, empty for Bind.
	Bind, Advertise string
	// KeyFile holds the keys: one per line, each of 16, 24 or 32 bytes in hex or base64, or a single raw one. The first
	// seals, each opens. It is read again while the node runs. Empty means no encryption, which is allowed only on
	// loopback or with Insecure.
	KeyFile  string
	Insecure bool
	// Join lists addresses host:port, which are tried in the background forever.
	Join []string
	// Meta is this node's initial metadata; see UpdateMeta.
	Meta Meta
	// OnConflict is called, at most once per minute and id, for two nodes with one id: at another address, or with
	// another data directory. It must not block.
	OnConflict func(existing, other Member)
	// OnRefused is called after each attempt on an address of Join: refused reports that the node there rejected this
	// one's gossip several times in a row. It must not block. May be nil.
	OnRefused func(address string, refused bool)
	// Logger receives log lines; nil discards them.
	Logger *slog.Logger

	// joinBackoffMax shortens tests.
	joinBackoffMax time.Duration
}

const (
	// protocolVersion is the version of rota's data in gossip.
	protocolVersion = 1
	// reclaimAfter is when a dead node's name may return at another address; memberlist's own default would reject it
	// forever.
	reclaimAfter = 30 * time.Second
	// tcpTimeout bounds a whole exchange of state.
	tcpTimeout = 3 * time.Second
	// updateWait bounds the wait for new metadata to be sent.
	updateWait = 500 * time.Millisecond
)

// knownMember is a member and the time of its last change.
type knownMember struct {
	Member
	since time.Time
}

// Gossip is this node's participation in gossip.
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

	mu      sync.Mutex // guards the fields below; taken within memberlist's lock
	meta    Meta
	encoded []byte
	members map[rota.NodeID]knownMember
}

// Start binds, and searches for the nodes of opts.Join in the background.
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

// Members lists every known node, including this one, by id. Nodes of another cluster, met before this node knew its
// own, are left out.
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

// Changed receives a value after Members may have changed; several changes may yield one value. It is never closed, and
// supports one reader.
func (g *Gossip) Changed() <-chan struct{} { return g.changed }

// Addr returns the gossip address that other nodes use.
func (g *Gossip) Addr() string { return addressOf(g.list.LocalNode()) }

// UpdateMeta changes this node's metadata. It returns immediately; other nodes receive it within a second. change must
// not call the Gossip.
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

// Leave announces that this node leaves on purpose, and waits until one node has received this or timeout has passed.
// Close must follow.
func (g *Gossip) Leave(timeout time.Duration) error {
	g.cancel()
	g.loops.Wait()
	return g.list.Leave(timeout)
}

// Close ends gossip. It is idempotent.
func (g *Gossip) Close() error {
	g.once.Do(func() {
		g.cancel()
		g.loops.Wait()
		g.closed = g.list.Shutdown()
	})
	return g.closed
}

// tellLoop broadcasts new metadata.
func (g *Gossip) tellLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.dirty:
			// A timeout is not a fault: the next exchange of state carries the metadata.
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

// portTries is how many free ports are tried: a port free for TCP may be in use for UDP.
const portTries = 10

// listen binds behind the gate, and starts memberlist there.
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

// config returns memberlist's configuration for a LAN, with every default replaced that is unsafe or slow to start.
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
	config.EnableCompression = false // the gate rejects compressed data
	config.DeadNodeReclaimTime = reclaimAfter
	config.TCPTimeout = tcpTimeout
	config.DelegateProtocolVersion = protocolVersion
	config.DelegateProtocolMin, config.DelegateProtocolMax = protocolVersion, protocolVersion
	d := delegate{g}
	config.Delegate, config.Events, config.Conflict, config.Merge, config.Alive = d, d, d, d, d
	config.Logger = log.New(libraryLog{g.opts.Logger, &g.lines}, "", 0)
	return config, nil
}
