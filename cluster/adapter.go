package cluster

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/snapshot"
)

// adapter connects raft's FSM interface to the state machine, and is the only place where they meet. raft calls Apply,
// Snapshot, Restore and StoreConfiguration from one goroutine.
type adapter struct{ n *Node }

var _ raft.ConfigurationStore = adapter{}

// Apply applies one committed entry and wakes the waiters it concerns. An entry that cannot be applied ends the
// process: skipping it would make this node differ from the others.
func (a adapter) Apply(log *raft.Log) any {
	n := a.n
	if halted := n.fatalErr.Load(); halted != nil {
		return *halted // after an entry that failed, none is applied
	}
	if err := n.stores.Await(log.Index); err != nil {
		return err // the disk failed: this node ends, and entries it was counted for were not answered
	}
	start := time.Now()
	n.watchdog.begun.Add(1)
	defer n.watchdog.ended.Add(1)
	if n.terms.leading() != nil {
		n.transport.Applied(log)
	}
	n.replica.Mu.Lock()
	if n.replica.Dropped.Load() {
		n.replica.Passed = rota.Index(log.Index) // applied once there is a state
		n.replica.Mu.Unlock()
		return n.replica.RefuseRebuilding()
	}
	err := n.replica.FollowsPassed(rota.Index(log.Index))
	var applied fsm.Applied
	if err == nil {
		applied, err = n.replica.Machine.Apply(rota.Index(log.Index), log.Term, log.Data)
	}
	if err != nil {
		n.replica.Mu.Unlock()
		n.fatal(err)
		return err
	}
	failpoint.Pass("apply-before-digest")
	n.replica.Passed = applied.Index
	n.replica.Digests.Put(applied.Index, applied.Digest, n.replica.Machine.Staging().Last)
	n.replica.PublishAccess()
	n.replica.Hub.Publish(n.replica.Machine, &applied)
	n.archive.Staged(n.replica.Machine)
	n.events.Append(n.replica.Machine.Head().Incarnation, &applied)
	if n.leader.caughtUp.Load() { // before that it replays: what it applies happened before it started
		n.measures.CountEvents(applied.Events)
		n.stats.Count(applied.Events)
	}
	n.recent.Count(applied.Events) // by their dates
	members := slices.ContainsFunc(applied.Events, func(e rota.Event) bool { return e.Kind == rota.EventNodeChanged })
	n.replica.Machine.Recycle(applied.Events) // followers of events read their bytes
	applied.Events = nil
	n.replica.Applied.Store(uint64(applied.Index)) // under the lock, since readers of the state may read it
	n.replica.Mu.Unlock()
	n.replica.Advance(applied.Index, applied.Rules)
	n.measures.Apply.Observe(time.Since(start).Seconds())
	if applied.Term == log.Term {
		n.membership.learnCluster()
	}
	if members {
		n.stream.Rejudge() // disconnects a removed node at once
	}
	return &applied
}

// StoreConfiguration makes raft's own index advance past entries that never reach the machine, so that snapshots are
// not rejected.
func (a adapter) StoreConfiguration(uint64, raft.Configuration) {}

// Snapshot freezes the state, which takes about a microsecond; Persist writes it while applying continues.
func (a adapter) Snapshot() (raft.FSMSnapshot, error) {
	// Entries that raft counts as applied may have been skipped since (Apply).
	if err := a.n.stores.Failed(); err != nil {
		return nil, err
	}
	if halted := a.n.fatalErr.Load(); halted != nil {
		return nil, *halted
	}
	frozen, err := a.n.replica.FreezeWhole()
	if err != nil {
		return nil, err
	}
	return frozenState{frozen, &a.n.base}, nil
}

type frozenState struct {
	frozen *fsm.Frozen
	n      *base
}

// Persist implements raft.FSMSnapshot.
func (f frozenState) Persist(sink raft.SnapshotSink) error {
	start := time.Now()
	f.n.events.Flush()
	if f.n.archive.Flush() == nil {
		f.frozen.Archived() // otherwise the snapshot includes the staged records
	}
	info, err := snapshot.Write(sink, f.frozen)
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	f.n.measures.Written.Observe(time.Since(start).Seconds())
	f.n.audit.Offer(f.n.snapshots.StateFile(sink.ID()), uint64(info.Index), f.frozen.Operations())
	f.n.log.Info("snapshot written", "index", info.Index, "records", info.Records, "bytes", info.Bytes,
		"took_ms", time.Since(start).Milliseconds())
	return nil
}

// Release implements raft.FSMSnapshot.
func (f frozenState) Release() {}

// Restore replaces the state with a snapshot. It decodes the snapshot while keeping the current state, and accepts it
// only if its digest is correct.
func (a adapter) Restore(rc io.ReadCloser) error {
	defer rc.Close()
	a.n.replica.Placing.Lock()
	defer a.n.replica.Placing.Unlock()
	if a.n.replica.Dropped.Load() {
		return a.n.replica.PassSnapshot(rc)
	}
	m, info, err := snapshot.ReadState(rc, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		l, err := fsm.NewLoaderKnowing(info, a.n.cfg.knows)
		planted.nonatomicRestore(&a.n.replica, l)
		failpoint.Pass("restore-midway")
		return l, err
	})
	if err != nil {
		a.n.log.Error("snapshot refused", "err", err)
		a.n.haltAtNewer(err)
		return err
	}
	n := a.n
	failpoint.Pass("restore-before-swap")
	installed := n.followInstalled(info.Index, m)
	n.events.Flush()
	_ = n.archive.Flush() // staged records go with the state; if this fails, they are fetched
	if installed {
		n.events.Doubt()
	}
	n.replica.Mu.Lock()
	n.replica.Passed = info.Index
	if n.replica.Dropped.Load() { // dropped during the read: a fetched state follows
		n.replica.Mu.Unlock()
		return nil
	}
	head := m.Head()
	n.replica.Place(m, head)
	n.replica.Mu.Unlock()
	n.replica.Advance(head.Index, head.Rules)
	n.membership.learnCluster()
	n.stream.Rejudge()
	n.log.Info("snapshot restored", "index", info.Index, "records", info.Records)
	return nil
}

// followInstalled reports whether a snapshot being restored came from another node: only this snapshot then connects to
// the log.
func (n *Node) followInstalled(index rota.Index, m *fsm.Machine) bool {
	last, err := n.stores.Log.LastIndex()
	if err != nil || last >= uint64(index) {
		return false
	}
	if err := n.audit.Reset(); err != nil {
		n.log.Warn("older snapshots stay", "err", err)
	}
	if kept, err := n.snapshots.List(); err == nil && len(kept) > 0 && kept[0].Index == uint64(index) {
		n.audit.Offer(n.snapshots.StateFile(kept[0].ID), uint64(index), m.Head().Operations)
	}
	return true
}
