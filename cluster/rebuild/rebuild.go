package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// The steps of a node whose state differs from the majority's (SPEC §2.5, ADR 0015):
//
//	quarantine  it records that its state is wrong and from where on, gives
//	            leadership up, ends its workers' streams and drops the state; raft
//	            continues below: it stores, acknowledges and votes, never leads
//	fetch       another node's state, whose digest a majority holds
//	adopt       that state, with the entries of this node's own log after it
//	scour       events, ended jobs and snapshots that the wrong state left behind
//
// The log, term and vote are never touched: the node keeps everything it acknowledged.
const (
	// Pause is the wait between two attempts, and the retry delay for callers that need the state.
	Pause = time.Second
	// rebuildFetch bounds fetching a state: a gigabyte at a few MiB/s.
	rebuildFetch = 10 * time.Minute
	// rebuildAgree bounds the wait until a majority has answered with its digest of a fetched state, and until this
	// node's log has reached it.
	rebuildAgree = 10 * time.Second
	// maxRebuildAgain is the maximum number of rebuilds in a row, each within rebuildWindow of the previous one; if
	// the state differs again, the cause is the log or the machine's memory.
	maxRebuildAgain = 3
	rebuildWindow   = time.Hour
)

// Rebuilder holds what a node knows about its own wrong state, and runs the loop that rebuilds it.
type Rebuilder struct {
	host Host
	// recording keeps the record in node.json consistent with dropping the state: the end of one rebuild must not
	// overwrite the beginning of the next.
	recording sync.Mutex
	// notified wakes the loop.
	notified chan struct{}
	// doubts counts consecutive comparisons without a result; only one goroutine compares.
	doubts int
	// right is where each node's state was last seen to be right; used by the same goroutine as doubts.
	right      map[rota.NodeID]rota.Index
	mismatches prometheus.Counter

	mu sync.Mutex
	// agreed is the newest state that a majority also held.
	agreed indexedDigest
	// why is the error of the last attempt.
	why  error
	done uint64
	// cutsLogged are the losses that this node has logged, by the node that reported them.
	cutsLogged map[rota.NodeID]raftstore.CutRecord
}

// New returns the rebuilder of a node.
func New(host Host) *Rebuilder {
	return &Rebuilder{host: host, notified: make(chan struct{}, 1), right: make(map[rota.NodeID]rota.Index),
		cutsLogged: make(map[rota.NodeID]raftstore.CutRecord),
		mismatches: prometheus.NewCounter(prometheus.CounterOpts{Name: "rota_state_hash_mismatch_total",
			Help: "Digests of other nodes that differed from this node's."})}
}

// agree records a state that a majority holds.
func (rb *Rebuilder) agree(e indexedDigest) {
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if e.index > rb.agreed.index {
		rb.agreed = e
	}
}

// quarantine takes this node out of service: a majority holds another digest.
func (rb *Rebuilder) quarantine(own indexedDigest, right rota.Digest) {
	rb.recording.Lock()
	defer rb.recording.Unlock()
	if rb.host.State.Dropped() {
		return
	}
	rb.mu.Lock()
	agreed := rb.agreed
	rb.mu.Unlock()
	record := raftstore.RebuildRecord{Open: true, At: uint64(own.index), Agreed: uint64(agreed.index),
		Ended: agreed.ended}
	if last := rb.host.Data.Rebuild(); rb.host.Wall().UnixMilli()-last.DoneMs < rebuildWindow.Milliseconds() ||
		last.Open {
		record.Again = last.Again + 1
		if last.Open { // the disk was not scoured yet: that fault remains
			record.Agreed, record.Ended, record.Past = min(record.Agreed, last.Agreed), min(record.Ended,
				last.Ended), last.Past
		}
	}
	text := fmt.Sprintf("at index %d this node's state has digest %s but a majority of the voters holds %s", own.index,
		own.digest, right)
	if record.Again >= maxRebuildAgain {
		rb.host.Fatal(rota.Refusef(rota.KindInternal, "digest",
			"%s, after %d rebuilds in a row, each within an hour of the one before: its log, or this machine's memory, cannot "+
				"be trusted. Move its data directory away for inspection and join again, on another machine, as a new node with a new "+
				"--node id", text, record.Again))
		return
	}
	rb.host.Log.Error("this node's state is wrong: it stops serving and rebuilds it", "index", uint64(own.index), "own",
		own.digest.String(), "majority", right.String(), "right_until", record.Agreed)
	rb.host.State.Drop()
	if err := rb.host.Data.SetRebuild(record); err != nil {
		rb.host.Fatal(&rota.Error{Kind: rota.KindInternal, Subject: "digest",
			Text: text + ", and that cannot be written down", Cause: err})
		return
	}
	rb.Resume()
}

// Resume wakes the loop for a recorded rebuild that is not complete.
func (rb *Rebuilder) Resume() {
	notify(rb.notified)
}

// Run rebuilds the state whenever it was dropped, until the node stops.
func (rb *Rebuilder) Run() {
	for {
		select {
		case <-rb.notified:
		case <-rb.host.Life.Done():
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
			if rb.host.Lines.Allow("rebuild") {
				rb.host.Log.Error("the state is not rebuilt yet", "err", err)
			}
			select {
			case <-time.After(Pause):
			case <-rb.host.Life.Done():
				return
			}
		}
	}
}

// rebuilding reports whether the rebuild is incomplete, even if only the disk is left.
func (rb *Rebuilder) rebuilding() bool {
	return rb.host.Life.Err() == nil && rb.host.Data.Rebuild().Open
}

// once proceeds as far as it can.
func (rb *Rebuilder) once() error {
	rb.host.StandDown()
	record := rb.host.Data.Rebuild()
	if rb.host.State.Dropped() {
		if err := rb.forget(record); err != nil {
			return err
		}
		if err := rb.outrun(record); err != nil {
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

// end records that a rebuild is complete, unless the state was found wrong again meanwhile: then that rebuild begins.
func (rb *Rebuilder) end(record raftstore.RebuildRecord) error {
	rb.recording.Lock()
	defer rb.recording.Unlock()
	if rb.host.State.Dropped() || rb.host.Data.Rebuild() != record {
		return nil
	}
	record.Open, record.DoneMs = false, rb.host.Wall().UnixMilli()
	if err := rb.host.Data.SetRebuild(record); err != nil {
		return err
	}
	rb.mu.Lock()
	rb.done++
	rb.mu.Unlock()
	rb.host.Log.Warn("the rebuild is over", "at", record.At)
	return nil
}

// forget discards records that the wrong state may have put into the archive: other nodes have the correct records and
// events.
func (rb *Rebuilder) forget(record raftstore.RebuildRecord) error {
	return errors.Join(rb.host.Archive.Forget(record.Ended+1), rb.host.Events.Forget(rota.Index(record.Agreed)))
}

// fetchState fetches a state whose digest a majority of the voters holds.
func (rb *Rebuilder) fetchState() (*fsm.Machine, error) {
	err := error(rota.Refusef(rota.KindUnavailable, "rebuild", "no other node answers with a state of its own"))
	for id, a := range rb.host.Inspect(rb.host.Servers(), nil) {
		if a.Err != nil || a.Rebuilding {
			continue
		}
		var m *fsm.Machine
		if m, err = rb.fetchStateFrom(a.Node); err == nil {
			rb.host.Log.Info("a state that a majority holds was fetched", "other_node", string(id), "index",
				uint64(m.Head().Index))
			return m, nil
		}
	}
	return nil, err
}

// fetchStateFrom decodes another node's state as it arrives. It accepts only a state whose digest matches its records
// and is held by a majority. The majority is queried as soon as the header arrives: once all of a large state has
// arrived, no node remembers a digest that old.
func (rb *Rebuilder) fetchStateFrom(to peer.NodeAddress) (*fsm.Machine, error) {
	ctx, cancel := context.WithTimeout(rb.host.Life, rebuildFetch)
	defer cancel()
	r, w := io.Pipe()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.CloseWithError(rb.host.Peers.State(ctx, to, w))
	}()
	m, _, err := snapshot.ReadState(r, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		if err := rb.proven(info.Index, info.Digest); err != nil {
			return nil, err
		}
		return fsm.NewLoaderKnowing(info, rb.host.Knows)
	})
	_ = r.Close() // ends the sender of a rejected state
	<-sent
	rb.host.HaltAtNewer(err)
	if err == nil && m.Head().ClusterID != rb.host.Data.ClusterID() {
		err = rota.Refusef(rota.KindConflict, "rebuild", "node %s sent a state of cluster %s", to.ID,
			m.Head().ClusterID)
	}
	return m, err
}

// proven waits until a majority of the voters, not counting this node, has answered with the digest of a state.
func (rb *Rebuilder) proven(at rota.Index, digest rota.Digest) error {
	ctx, cancel := context.WithTimeout(rb.host.Life, rebuildAgree)
	defer cancel()
	for {
		held, answered, voters := 0, 0, 0
		servers := rb.host.Servers()
		answers := rb.host.Inspect(servers, []rota.Index{at})
		for _, s := range servers {
			if s.Suffrage != raft.Voter {
				continue
			}
			voters++
			if a := answers[rota.NodeID(s.ID)]; a.Err == nil && a.Digest != nil {
				answered++
				if *a.Digest == digest {
					held++
				}
			}
		}
		if held > voters/2 {
			return nil
		}
		if err := rb.host.pause(ctx, 50*time.Millisecond); err != nil {
			return rota.Refusef(rota.KindUnavailable, "rebuild",
				"of %d voters %d answered with their digest at index %d, and %d have the fetched state's: "+
					"that is not a majority", voters, answered, at, held)
		}
	}
}
