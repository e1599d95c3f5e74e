package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/logs"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot/archive"
)

// rig is a cluster's history without the cluster: nodes that apply the operations that the test proposes, each with its
// own file.
type rig struct {
	t     *testing.T
	nodes map[string]*node
	index rota.Index
	// later is how far the clock has advanced in addition to the entries.
	later time.Duration
}

// node is one node of a rig.
type node struct {
	*Archive
	*Events
	file *File
	mu   sync.RWMutex
	m    *fsm.Machine
	room atomic.Uint64
	// up is how long the node has been up.
	up atomic.Int64
}

func newRig(t *testing.T, names ...string) *rig {
	t.Helper()
	r := &rig{t: t, nodes: make(map[string]*node)}
	for _, name := range names {
		r.nodes[name] = r.open(name, names)
	}
	r.apply(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: names[0],
		Random: make([]byte, 32), ClusterId: "c-1", StartMs: 1}}})
	return r
}

// open creates a node; a name that is listed and never opened is a node that the others have never seen.
func (r *rig) open(name string, names []string) *node {
	file, err := OpenFile(FileOptions{Path: filepath.Join(r.t.TempDir(), archive.FileName), Retained: 1_000_000,
		NoSync: true})
	if err != nil {
		r.t.Fatal(err)
	}
	life, end := context.WithCancelCause(context.Background())
	r.t.Cleanup(func() {
		end(errors.New("the node stops"))
		_ = file.DB.Close()
	})
	n := &node{file: file, m: fsm.New()}
	n.room.Store(math.MaxUint64)
	host := Host{Log: slog.New(slog.DiscardHandler), Lines: &logs.Limiter{}, Life: life, Peers: peers{r},
		Room:      n.room.Load,
		SinceBoot: func() time.Duration { return time.Second + time.Duration(n.up.Load()) },
		State: State{Look: n.look, View: n.view, Freezing: n.freezing, Peek: n.peek, Archived: n.archived,
			Fresh: n.fresh, Await: n.await},
		Others: func() (others []peer.NodeAddress, member bool) {
			for _, other := range names {
				if _, seen := r.nodes[other]; other != name && seen {
					others = append(others, peer.NodeAddress{ID: rota.NodeID(other), API: other})
				} else if other != name {
					others = append(others, peer.NodeAddress{ID: rota.NodeID(other)})
				}
			}
			return others, true
		}}
	n.Archive, n.Events = NewArchive(host, file, time.Hour, 1<<30), NewEvents(host, file, 1_000_000)
	return n
}

func (n *node) look(f func(*fsm.View)) { _ = n.view(f) }

func (n *node) view(f func(*fsm.View)) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	f(&n.m.View)
	return nil
}

func (n *node) peek(f func(*fsm.View)) bool { return n.view(f) == nil }

func (n *node) freezing(f func(*fsm.Machine)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.m)
	return nil
}

func (n *node) archived(seqs []uint64) { _ = n.freezing(func(m *fsm.Machine) { m.Archived(seqs) }) }

func (n *node) fresh(context.Context, peer.ReadOptions) (rota.ReadAt, error) {
	return rota.ReadAt{Index: n.head().Index}, nil
}

func (n *node) await(context.Context, rota.Index) error { return nil }

func (n *node) head() fsm.Head { return n.Archive.host.State.head() }

// apply applies one entry on every node.
func (r *rig) apply(ops ...*fsmpb.Op) {
	r.t.Helper()
	r.index++
	data, err := entry.Seal(&fsmpb.Entry{Term: 1, NowMs: int64(r.index) + r.later.Milliseconds(), Ops: ops},
		entry.FirstRules)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range r.nodes {
		if err := n.freezing(func(m *fsm.Machine) {
			var a fsm.Applied
			if a, err = m.Apply(r.index, 1, data); err == nil {
				n.Append(m.Head().Incarnation, &a)
			}
		}); err != nil {
			r.t.Fatal(err)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// submit applies an entry with the given number of new jobs.
func (r *rig) submit(prefix string, jobs int) {
	r.t.Helper()
	ops := make([]*fsmpb.Op, jobs)
	for i := range ops {
		spec := rota.NewJobSpec("work", []byte("payload"))
		spec.ID, spec.Tenant = rota.JobID(fmt.Sprintf("%s-%d", prefix, i)), rota.DefaultTenant
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}}
	}
	r.apply(ops...)
}

// cancel ends jobs that were submitted.
func (r *rig) cancel(prefix string, jobs int) {
	r.t.Helper()
	ops := make([]*fsmpb.Op, jobs)
	for i := range ops {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: fmt.Sprintf("%s-%d", prefix, i)}}}
	}
	r.apply(ops...)
}

// onDisk writes a node's events and releases those in memory.
func (r *rig) onDisk(n *node) {
	n.Events.Flush()
	n.Hold()
}

// tail reads the events that a filter selects, to the end.
func (r *rig) tail(n *node, filter rota.EventFilter) []rota.ServedEvent {
	r.t.Helper()
	var got []rota.ServedEvent
	if err := n.Events.Events(r.t.Context(), filter, func(batch peer.EventBatch) error {
		got = append(got, batch.Events...)
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return got
}

// ids formats a list of events for comparison, with all their content.
func ids(events []rota.ServedEvent) string {
	var b strings.Builder
	for i := range events {
		fmt.Fprintf(&b, "%+v\n", events[i])
	}
	return b.String()
}

// peers calls the rig's nodes directly.
type peers struct{ r *rig }

func (p peers) EventRange(ctx context.Context, to peer.NodeAddress, r peer.EventRange) (peer.EventChunk, error) {
	return p.r.nodes[to.API].EventRange(ctx, r)
}

func (p peers) ArchiveRange(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan,
	most int64) (peer.ArchiveSlice, error) {
	return p.r.nodes[to.API].ArchiveRange(ctx, span, most)
}

func (p peers) ArchiveSums(ctx context.Context, to peer.NodeAddress, span peer.ArchiveSpan,
	sum []byte) (bool, []peer.ArchiveRecord, error) {
	return p.r.nodes[to.API].ArchiveSums(ctx, span, sum)
}

func (p peers) ArchiveRecords(ctx context.Context, to peer.NodeAddress,
	ids []rota.JobID) ([]peer.ArchiveRecord, error) {
	return p.r.nodes[to.API].ArchiveRecords(ctx, ids)
}

func (p peers) ListArchived(ctx context.Context, to peer.NodeAddress, f rota.JobFilter,
	at rota.Index) (rota.JobPage, error) {
	return p.r.nodes[to.API].ListArchived(ctx, f, at)
}

// discard logs nothing.
var discard = slog.New(slog.NewTextHandler(io.Discard, nil))
