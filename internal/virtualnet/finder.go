package virtualnet

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
)

// Finder replaces gossip: every node that ever started is known to all at once. Losses of gossip itself are tested by
// test/jepsen-lite.
type Finder struct {
	mu sync.Mutex
	// members by id; replaced, never changed, because readers share it.
	members []gossip.Member
	joined  map[*found]bool
}

// NewFinder returns a finder without members.
func NewFinder() *Finder {
	return &Finder{joined: make(map[*found]bool)}
}

// found is one node's part of it.
type found struct {
	finder  *Finder
	id      rota.NodeID
	changed chan struct{}
}

// Join adds a node.
func (f *Finder) Join(opts gossip.Options) gossip.Discovery {
	one := &found{finder: f, id: opts.ID, changed: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joined[one] = true
	f.put(gossip.Member{ID: opts.ID, Meta: opts.Meta, Gossip: opts.Bind, Alive: true})
	return one
}

// put adds or replaces a member, and wakes all nodes; the caller holds the lock.
func (f *Finder) put(m gossip.Member) {
	same := func(other gossip.Member) bool { return other.ID == m.ID }
	f.members = append(slices.DeleteFunc(slices.Clone(f.members), same), m)
	slices.SortFunc(f.members, func(a, b gossip.Member) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for one := range f.joined {
		notify(one.changed)
	}
}

// Forget removes a member that will never be back, as gossip does after a while.
func (f *Finder) Forget(id rota.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = slices.DeleteFunc(slices.Clone(f.members), func(m gossip.Member) bool { return m.ID == id })
	for one := range f.joined {
		notify(one.changed)
	}
}

// Members implements gossip.Discovery.
func (o *found) Members() []gossip.Member {
	o.finder.mu.Lock()
	defer o.finder.mu.Unlock()
	return slices.Clone(o.finder.members)
}

// Changed implements gossip.Discovery.
func (o *found) Changed() <-chan struct{} { return o.changed }

// UpdateMeta implements gossip.Discovery.
func (o *found) UpdateMeta(change func(*gossip.Meta)) error {
	o.finder.mu.Lock()
	defer o.finder.mu.Unlock()
	for _, m := range o.finder.members {
		if m.ID == o.id {
			change(&m.Meta)
			o.finder.put(m)
			break
		}
	}
	return nil
}

// Leave implements gossip.Discovery.
func (o *found) Leave(time.Duration) error { return nil }

// Close implements gossip.Discovery.
func (o *found) Close() error {
	o.finder.mu.Lock()
	defer o.finder.mu.Unlock()
	delete(o.finder.joined, o)
	return nil
}
