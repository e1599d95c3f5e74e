package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// What a node does whose state differs from the majority's (SPEC §2.5, ADR 0015):
//
//	quarantine  it writes down that its state is wrong and from where on, gives
//	            leadership up, ends its workers' streams and drops the state; raft
//	            goes on beneath: it stores, acknowledges and votes, never stands
//	fetch       another node's state, whose digest a majority holds
//	adopt       that state, with the entries of this node's own log after it
//	scour       events, ended jobs and snapshots that the wrong state left behind
//
// The log, term and vote are never touched: what this node acknowledged it keeps.
const (
	// rebuildPause is the rest between two tries.
	rebuildPause = time.Second
	// rebuildFetch bounds one fetching of a state: a gigabyte at a few MiB/s.
	rebuildFetch = 10 * time.Minute
	// rebuildAgree bounds the wait until a majority has answered with its digest of a fetched
	// state, and until this node's log has come so far.
	rebuildAgree = 10 * time.Second
	// rebuildAgainMost rebuilds are done in a row, each within rebuildWindow of the one
	// before; where the state differs once more it is the log, or the machine's memory.
	rebuildAgainMost = 3
	rebuildWindow    = time.Hour
	// stateRebuilding is what a node calls itself meanwhile.
	stateRebuilding = "REBUILDING"
)

// rebuilder is what a node knows of its own being wrong.
type rebuilder struct {
	n       *Node
	digests digestRing
	// active says that there is no state to serve. It is changed under the apply lock,
	// and read without it where a moment's lateness does no harm.
	active atomic.Bool
	// passed is the newest entry, or snapshot, that raft handed over, whether there was a state
	// to apply it to or not; guarded by the apply lock.
	passed rota.Index
	// placing lets one at a time put a state in place: raft's snapshot, or the rebuilt one.
	placing sync.Mutex
	// recording keeps the record in node.json and active in step: the end of one rebuild
	// must not write over the beginning of the next.
	recording sync.Mutex
	// mute stops this node's heartbeats, so that it ceases to lead.
	mute atomic.Bool
	// notified wakes the loop.
	notified chan struct{}
	// doubts counts comparisons in a row that showed nothing; the watch loop's own.
	doubts int
	// right is where each node's state was last seen to be right; the watch loop's own.
	right map[rota.NodeID]rota.Index

	mu sync.Mutex
	// agreed is the newest state that a majority held too.
	agreed indexedDigest
	// why is what the last try failed at.
	why  error
	done uint64
}

// agree notes a state that a majority holds.
func (rb *rebuilder) agree(e indexedDigest) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if e.index > rb.agreed.index {
		rb.agreed = e
	}
}

// quarantine takes this node out of service: a majority holds another digest.
func (rb *rebuilder) quarantine(own indexedDigest, right rota.Digest) {
	rb.recording.Lock()
	defer rb.recording.Unlock()
	if rb.active.Load() {
		return
	}
	rb.mu.Lock()
	agreed := rb.agreed
	rb.mu.Unlock()
	record := raftstore.RebuildRecord{Open: true, At: uint64(own.index), Agreed: uint64(agreed.index), Ended: agreed.ended}
	if last := rb.n.data.Rebuild(); rb.n.wall().UnixMilli()-last.DoneMs < rebuildWindow.Milliseconds() || last.Open {
		record.Again = last.Again + 1
		if last.Open { // the disk was not scoured yet: what was wrong then is so still
			record.Agreed, record.Ended = min(record.Agreed, last.Agreed), min(record.Ended, last.Ended)
		}
	}
	text := fmt.Sprintf("at index %d this node's state has digest %s but a majority of the voters holds %s", own.index, own.digest, right)
	if record.Again >= rebuildAgainMost {
		rb.n.fatal(rota.Refusef(rota.KindInternal, "digest", "%s, after %d rebuilds in a row, each within an hour of the one before: its log, or this machine's memory, cannot "+
			"be trusted. Move its data directory away for inspection and join again, on another machine, as a new node with a new "+
			"--node id", text, record.Again))
		return
	}
	rb.n.log.Error("this node's state is wrong: it stops serving and rebuilds it", "index", uint64(own.index), "own", own.digest.String(),
		"majority", right.String(), "right_until", record.Agreed)
	rb.dropState()
	if err := rb.n.data.SetRebuild(record); err != nil {
		rb.n.fatal(&rota.Error{Kind: rota.KindInternal, Subject: "digest", Text: text + ", and that cannot be written down", Cause: err})
		return
	}
	notify(rb.notified)
}

// dropState puts nothing in the place of the state, so that nobody can be served
// from it, and ends what hangs on it: the leadership, workers' streams, events.
func (rb *rebuilder) dropState() {
	rb.n.replica.mu.Lock()
	rb.n.terms.lower() // first: nothing that the empty state suggests to a leader is proposed
	rb.active.Store(true)
	rb.n.replica.machine = fsm.NewKnowing(rb.n.cfg.knows)
	rb.digests.clear()
	rb.n.events.Hold()
	rb.n.replica.mu.Unlock()
	rb.n.replica.hub.mu.Lock()
	for s := range rb.n.replica.hub.streams() {
		s.end()
	}
	rb.n.replica.hub.mu.Unlock()
}

// run rebuilds the state whenever it was dropped.
func (rb *rebuilder) run() {
	for {
		select {
		case <-rb.notified:
		case <-rb.n.stopped:
			return
		}
		for rb.rebuilding() {
			err := rb.once()
			rb.mu.Lock()
			rb.why = err
			rb.mu.Unlock()
			if err == nil {
				continue
			}
			if rb.n.lines.Allow("rebuild") {
				rb.n.log.Error("the state is not rebuilt yet", "err", err)
			}
			select {
			case <-time.After(rebuildPause):
			case <-rb.n.stopped:
				return
			}
		}
	}
}

// rebuilding reports whether the rebuild is not over, be it that only the disk is left.
func (rb *rebuilder) rebuilding() bool { return !rb.n.stopping() && rb.n.data.Rebuild().Open }

// once goes as far as it can.
func (rb *rebuilder) once() error {
	rb.standDown()
	record := rb.n.data.Rebuild()
	if rb.active.Load() {
		if err := rb.forget(record); err != nil {
			return err
		}
		failpoint.Pass("rebuild-before-fetch")
		m, err := rb.fetchState()
		if err != nil {
			return err
		}
		failpoint.Pass("rebuild-before-adopt")
		if err := rb.adopt(m); err != nil {
			return err
		}
	}
	failpoint.Pass("rebuild-before-scour")
	if err := rb.scour(record); err != nil {
		return err
	}
	failpoint.Pass("rebuild-before-end")
	return rb.end(record)
}

// end writes down that a rebuild is over, unless the state was found wrong once
// more meanwhile: then that one begins.
func (rb *rebuilder) end(record raftstore.RebuildRecord) error {
	rb.recording.Lock()
	defer rb.recording.Unlock()
	if rb.active.Load() || rb.n.data.Rebuild() != record {
		return nil
	}
	record.Open, record.DoneMs = false, rb.n.wall().UnixMilli()
	if err := rb.n.data.SetRebuild(record); err != nil {
		return err
	}
	rb.mu.Lock()
	rb.done++
	rb.mu.Unlock()
	rb.n.log.Warn("the rebuild is over", "index", rb.n.replica.applied.Load())
	return nil
}

// standDown makes raft give leadership up: handed over where a voter takes it, else
// by silence.
func (rb *rebuilder) standDown() {
	if rb.n.raft.State() != raft.Leader {
		return
	}
	ctx, cancel := context.WithTimeout(rb.n.life, rb.n.cfg.Timing.Election+2*time.Second)
	rb.n.terms.handOver(ctx)
	cancel()
	if rb.n.raft.State() != raft.Leader {
		return
	}
	rb.mute.Store(true)
	defer rb.mute.Store(false)
	for rb.n.raft.State() == raft.Leader && rb.n.leader.pause(rb.n.life, 10*time.Millisecond) == nil {
	}
}

// forget gives up what the wrong state may have put into the archive: other nodes
// have the true records and events.
func (rb *rebuilder) forget(record raftstore.RebuildRecord) error {
	return errors.Join(rb.n.archive.Forget(record.Ended+1), rb.n.events.Forget(rota.Index(record.Agreed)))
}

// fetchState gets a state whose digest a majority of the voters holds.
func (rb *rebuilder) fetchState() (*fsm.Machine, error) {
	err := error(rota.Refusef(rota.KindUnavailable, "rebuild", "no other node answers with a state of its own"))
	servers := rb.n.membership.servers()
	for id, v := range rb.n.watch.inspectAll(servers, nil) {
		if v.err != nil || v.status.State == stateRebuilding {
			continue
		}
		to, ok := rb.n.membership.address(id)
		if !ok {
			continue
		}
		var m *fsm.Machine
		if m, err = rb.fetchStateFrom(to); err == nil {
			rb.n.log.Info("a state that a majority holds was fetched", "other_node", string(id), "index", uint64(m.Head().Index))
			return m, nil
		}
	}
	return nil, err
}

// fetchStateFrom decodes another node's state as it comes; only one whose digest is that
// of its records is taken, and that a majority holds. The majority is asked as soon as
// the header is in: once all of a large state has come, nobody remembers so old a digest.
func (rb *rebuilder) fetchStateFrom(to peer.NodeAddress) (*fsm.Machine, error) {
	ctx, cancel := context.WithTimeout(rb.n.life, rebuildFetch)
	defer cancel()
	r, w := io.Pipe()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.CloseWithError(rb.n.peers.State(ctx, to, w))
	}()
	m, _, err := snapshot.Read(r, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		if err := rb.proven(info.Index, info.Digest); err != nil {
			return nil, err
		}
		return fsm.NewLoaderKnowing(info, rb.n.cfg.knows)
	})
	_ = r.Close() // ends a sender whose state is refused
	<-sent
	rb.n.replica.haltAtNewer(err)
	if err == nil && m.Head().ClusterID != rb.n.ClusterID() {
		err = rota.Refusef(rota.KindConflict, "rebuild", "node %s sent a state of cluster %s", to.ID, m.Head().ClusterID)
	}
	return m, err
}

// proven waits until a majority of the voters, this node not counted, has answered with the
// digest of a state.
func (rb *rebuilder) proven(at rota.Index, digest rota.Digest) error {
	ctx, cancel := context.WithTimeout(rb.n.life, rebuildAgree)
	defer cancel()
	for {
		held, answered, voters := 0, 0, 0
		servers := rb.n.membership.servers()
		views := rb.n.watch.inspectAll(servers, []rota.Index{at})
		for _, s := range servers {
			if s.Suffrage != raft.Voter {
				continue
			}
			voters++
			if v := views[rota.NodeID(s.ID)]; v.err == nil && v.digest != nil {
				answered++
				if *v.digest == digest {
					held++
				}
			}
		}
		if held > voters/2 {
			return nil
		}
		if err := rb.n.leader.pause(ctx, 50*time.Millisecond); err != nil {
			return rota.Refusef(rota.KindUnavailable, "rebuild", "of %d voters %d answered with their digest at index %d and %d hold the fetched state's: "+
				"a majority is wanted", voters, answered, at, held)
		}
	}
}

// SaveState writes this node's state for one that rebuilds its own.
func (rb *rebuilder) SaveState(_ context.Context, w io.Writer) error {
	if err := rb.n.Ready(); err != nil {
		return err
	}
	frozen, err := rb.n.replica.freezeWhole()
	if err != nil {
		return err
	}
	_, err = snapshot.Write(w, frozen)
	return err
}
