package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/internal/peer"
)

// join decides how a starting node takes part (SPEC §13.4). A node that is a member continues, unless the cluster
// rejects it; a fresh one founds a cluster with the other expected nodes, or waits to be added. It returns when Raft
// may start.
func (mb *membership) join(ctx context.Context) error {
	if !mb.n.data.Fresh() {
		mb.n.cfg.Starting("the other nodes are asked whether it may")
		return mb.introduceOnce(ctx, 2*time.Second)
	}
	if mb.n.cfg.foundsNothing() {
		return foundsNothing(mb.n.cfg.Data)
	}
	for {
		members := mb.aliveMembers()
		withState := slices.DeleteFunc(slices.Clone(members),
			func(m gossip.Member) bool { return !m.HasState || m.ID == mb.n.cfg.Node })
		if len(withState) > 0 {
			agreed, err := mb.introduceTo(ctx, withState)
			if err != nil || len(agreed) > 0 {
				return err
			}
		} else if fresh := mb.founders(members); fresh != nil && mb.proven(fresh) {
			return mb.found(fresh)
		}
		mb.waits(len(members), len(withState))
		select {
		case <-mb.n.gossip.Changed():
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return &rota.Error{Kind: rota.KindUnavailable,
				Text: "the start was called off while waiting for other nodes", Cause: ctx.Err()}
		}
	}
}

func (w *waiting) refuse(address string, refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !refused {
		delete(w.refused, address)
		return
	}
	if w.refused == nil {
		w.refused = make(map[string]bool)
	}
	w.refused[address] = true
}

func (w *waiting) refusers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.refused))
}

// waits reports what this node is waiting for, and logs it every ten seconds.
func (mb *membership) waits(seen, withState int) {
	refusers := mb.waiting.refusers()
	mb.n.cfg.Starting(waitText(seen, withState, mb.n.cfg.BootstrapExpect, refusers))
	if time.Since(mb.waiting.said) > 10*time.Second {
		mb.waiting.said = time.Now()
		mb.n.log.Info("waiting for other nodes: --bootstrap-expect fresh nodes found a cluster, "+
			"a node with state adds others", "seen", seen, "bootstrap_expect", mb.n.cfg.BootstrapExpect,
			"with_state", withState, "refused_by", strings.Join(refusers, ","))
	}
}

// waitText describes what a node waits for that sees this many nodes, including itself.
func waitText(seen, withState, expect int, refusers []string) string {
	text := "waiting to be added by a node that has state"
	switch {
	case withState > 0:
		text = "waiting to be added: the nodes that have state do not answer, or have not caught up"
	case expect > 0:
		text = fmt.Sprintf("waiting for other nodes: %d of --bootstrap-expect %d are here", seen, expect)
	}
	if len(refusers) > 0 {
		text += "; " + strings.Join(refusers, ", ") +
			" refused this node's gossip: is --cluster the same, and the gossip key?"
	}
	return text
}

// foundsNothing reports that a fresh node neither founds nor joins a cluster.
func (c *Config) foundsNothing() bool { return c.BootstrapExpect == 0 && len(c.Join) == 0 }

// foundsNothing returns the error for such a node.
func foundsNothing(data string) error {
	return rota.Refusef(rota.KindInvalid, "join",
		"data directory %s is empty and neither --bootstrap-expect nor --join is "+
			"given: a fresh node founds a cluster or joins one", data)
}

func (mb *membership) aliveMembers() []gossip.Member {
	return slices.DeleteFunc(mb.n.gossip.Members(), func(m gossip.Member) bool { return !m.Alive })
}

// founders returns the fresh nodes that found a cluster; nil while they are too few or disagree on their number.
func (mb *membership) founders(members []gossip.Member) []gossip.Member {
	expect := mb.n.cfg.BootstrapExpect
	if expect == 0 {
		return nil
	}
	var fresh []gossip.Member
	for _, m := range members {
		if m.BootstrapExpect == expect && !m.HasState && m.ClusterID == "" {
			fresh = append(fresh, m)
		}
	}
	if len(fresh) != expect {
		return nil
	}
	slices.SortFunc(fresh, func(a, b gossip.Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return fresh
}

// proven reports whether each founder is at the address in gossip, with the data directory and, by its certificate, the
// id: gossip alone does not make a founder.
func (mb *membership) proven(founders []gossip.Member) bool {
	var failed atomic.Bool
	var all sync.WaitGroup
	for _, m := range founders {
		all.Go(func() {
			if !mb.proves(m) {
				failed.Store(true)
			}
		})
	}
	all.Wait()
	return !failed.Load()
}

// proves asks a node found by gossip for its identity, at its raft address.
func (mb *membership) proves(m gossip.Member) bool {
	if m.ID == mb.n.cfg.Node {
		return true
	}
	said, err := mb.n.stream.Meet(m.ID, m.Raft, peerTimeout)
	if err == nil && said.Identity == m.Identity {
		return true
	}
	if mb.n.lines.Allow("prove/" + string(m.ID)) {
		mb.n.log.Warn("a node that gossip suggests does not prove its identity", "other_node",
			string(m.ID), "raft", m.Raft, "identity", m.Identity, "answered_with", said.Identity, "err", err)
	}
	return false
}

// found writes the first configuration. Every founder writes the same one.
func (mb *membership) found(founders []gossip.Member) error {
	var servers []raft.Server
	identities := make(map[rota.NodeID]string)
	for _, m := range founders {
		identities[m.ID] = m.Identity
		servers = append(servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft),
			Suffrage: raft.Voter})
	}
	mb.n.log.Info("founding a cluster", "nodes", len(servers))
	if err := mb.n.data.SetFounders(identities); err != nil {
		return err
	}
	err := raft.BootstrapCluster(mb.raftConfig(), mb.n.stores.Log, mb.n.stores.Stable, mb.n.snapshots, mb.n.transport,
		raft.Configuration{Servers: servers})
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Text: "the cluster cannot be founded", Cause: err}
	}
	return nil
}

// introduceTo asks all given members at once, for at most a second, whether this node may start. It returns the members
// that agreed, or the error of one that rejected it permanently.
func (mb *membership) introduceTo(ctx context.Context, members []gossip.Member) (agreed []rota.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	now := mb.marks.now()
	in := peer.Introduction{Node: mb.n.cfg.Node, Identity: mb.n.data.Identity(), Starts: mb.n.data.Starts(),
		Fresh: mb.n.data.Fresh(), RulesVersion: mb.n.cfg.knows, Term: now.Term, LastLogIndex: rota.Index(now.Index)}
	answers := make([]error, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() { answers[i] = mb.n.peers.Introduce(ctx, peer.NodeAddress{ID: m.ID, API: m.API}, in) })
	}
	asked.Wait()
	for i, m := range members {
		switch rota.KindOf(answers[i]) {
		case rota.KindNone:
			agreed = append(agreed, m.ID)
		case rota.KindConflict, rota.KindDenied:
			return nil, answers[i]
		default:
			mb.n.log.Debug("introduction not answered", "to", string(m.ID), "err", answers[i])
		}
	}
	return agreed, nil
}

// introduceOnce asks every other living member whether a node with state may start. It needs all of them, because each
// member only remembers what this node acknowledged to it. The node starts once all founders agreed, or once all known
// members agreed and gossip showed no new one for half a second. After most it starts in any case: if the whole cluster
// is down, no member can answer.
func (mb *membership) introduceOnce(ctx context.Context, most time.Duration) error {
	c, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	founders := len(mb.n.data.Founders()) // 0: it joined an existing cluster
	alone := founders == 1 && len(mb.n.cfg.Join) == 0
	var agreed []rota.NodeID
	var calm <-chan time.Time
	waited := false
	for {
		others := slices.DeleteFunc(mb.aliveMembers(), func(m gossip.Member) bool {
			return m.ID == mb.n.cfg.Node || !m.HasState || slices.Contains(agreed, m.ID)
		})
		more, err := mb.introduceTo(c, others)
		if err != nil {
			return err
		}
		if len(more) > 0 {
			agreed = append(agreed, more...)
			calm, waited = time.After(500*time.Millisecond), false
		}
		enough := alone || waited || founders > 0 && len(agreed) >= founders-1 && len(agreed) > 0
		if len(more) == len(others) && enough {
			return nil
		}
		select {
		case <-mb.n.gossip.Changed():
		case <-time.After(100 * time.Millisecond):
		case <-calm:
			waited = true
		case <-c.Done():
			return nil
		}
	}
}
