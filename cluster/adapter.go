package cluster

import (
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// adapter is the only meeting point of the library's FSM interface and the
// state machine. raft calls Apply, Snapshot, Restore and StoreConfiguration
// from one goroutine.
type adapter struct{ n *Node }

var _ raft.ConfigurationStore = adapter{}

// Apply applies one committed entry and wakes whoever it concerns. An entry
// that cannot be applied ends the process: skipping it would make this node
// differ from the others.
func (a adapter) Apply(log *raft.Log) any {
	n := a.n
	if halted := n.fatalErr.Load(); halted != nil {
		return *halted // nothing is applied after what could not be
	}
	start := time.Now()
	n.mu.Lock()
	applied, err := n.machine.Apply(rota.Index(log.Index), log.Term, log.Data)
	if err != nil {
		n.mu.Unlock()
		n.fatal(err)
		return err
	}
	n.digests.put(applied.Index, applied.Digest)
	n.hub.publish(n.machine, &applied)
	n.history.wanted(n.machine)
	n.events.append(n.machine.Head().Incarnation, &applied)
	n.mu.Unlock()
	n.applied.Store(uint64(applied.Index))
	n.appliedAt.Store(int64(sinceBoot()))
	n.hub.advance(applied.Index)
	n.measures.apply.Observe(time.Since(start).Seconds())
	n.measures.countEvents(applied.Events)
	if applied.Term == log.Term {
		n.learnCluster()
	}
	return &applied
}

// StoreConfiguration keeps raft's own index moving past entries that never
// reach the machine, so that snapshots are not refused.
func (a adapter) StoreConfiguration(uint64, raft.Configuration) {}

// Snapshot freezes the state, which takes about a microsecond; Persist writes
// it while applying goes on.
func (a adapter) Snapshot() (raft.FSMSnapshot, error) {
	return frozenState{a.n.freeze(), a.n}, nil
}

func (n *Node) freeze() *fsm.Frozen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machine.Freeze()
}

type frozenState struct {
	frozen *fsm.Frozen
	n      *Node
}

// Persist implements raft.FSMSnapshot.
func (f frozenState) Persist(sink raft.SnapshotSink) error {
	start := time.Now()
	f.n.flushEventsOnce()
	if f.n.flushHistory() == nil {
		f.frozen.Archived() // else the snapshot carries what is staged
	}
	info, err := snapshot.Write(sink, f.frozen)
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	f.n.keepForAudit(sink.ID(), uint64(info.Index), f.frozen.Operations())
	f.n.log.Info("snapshot written", "index", info.Index, "records", info.Records, "bytes", info.Bytes,
		"took_ms", time.Since(start).Milliseconds())
	return nil
}

// Release implements raft.FSMSnapshot.
func (f frozenState) Release() {}

// Restore puts a snapshot in the place of the state. It is decoded beside the
// present one, and only a state whose digest is right is taken.
func (a adapter) Restore(rc io.ReadCloser) error {
	defer rc.Close()
	m, info, err := snapshot.Read(rc, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		return fsm.NewLoader(info)
	})
	if err != nil {
		a.n.log.Error("snapshot refused", "err", err)
		return err
	}
	n := a.n
	n.followInstalled(info.Index, m)
	n.flushEventsOnce()
	_ = n.flushHistory() // what is staged goes with the state; what fails is fetched
	n.mu.Lock()
	before := n.machine
	n.machine = m
	n.digests.clear()
	n.digests.put(info.Index, info.Digest)
	n.hub.resync(before, m)
	n.events.reset(m.Head())
	n.mu.Unlock()
	n.applied.Store(uint64(info.Index))
	n.appliedAt.Store(int64(sinceBoot()))
	n.hub.advance(info.Index)
	n.learnCluster()
	n.log.Info("snapshot restored", "index", info.Index, "records", info.Records)
	return nil
}
