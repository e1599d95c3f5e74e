package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// stateless is a state machine without state.
type stateless struct{ applied chan uint64 }

func (f *stateless) Apply(entry *raft.Log) any { f.applied <- entry.Index; return nil }

func (f *stateless) Snapshot() (raft.FSMSnapshot, error) { return stateless{}, nil }

func (f *stateless) Restore(r io.ReadCloser) error { return r.Close() }

func (f stateless) Persist(sink raft.SnapshotSink) error {
	_, err := sink.Write(bytes.Repeat([]byte("state"), 100))
	return errors.Join(err, sink.Close())
}

func (f stateless) Release() {}

// runRaft runs a single-node raft over dir until work has returned.
func runRaft(t *testing.T, dir string, work func(*raft.Raft)) {
	t.Helper()
	stores := openTestStores(t, dir, nil)
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	address, transport := raft.NewInmemTransport("n1:1")
	config := raft.DefaultConfig()
	config.LocalID, config.Logger = "n1", hclog.NewNullLogger()
	config.HeartbeatTimeout, config.ElectionTimeout = 50*time.Millisecond, 50*time.Millisecond
	config.LeaderLeaseTimeout, config.CommitTimeout = 50*time.Millisecond, time.Millisecond
	config.TrailingLogs = 10
	if has, err := raft.HasExistingState(stores.Log, stores.Stable, snapshots); err != nil {
		t.Fatal(err)
	} else if !has {
		servers := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: address}}}
		err := raft.BootstrapCluster(config, stores.Log, stores.Stable, snapshots, transport, servers)
		if err != nil {
			t.Fatal(err)
		}
	}
	machine := &stateless{make(chan uint64, 10_000)}
	node, err := raft.NewRaft(config, machine, stores.Log, stores.Stable, snapshots, transport)
	if err != nil {
		t.Fatal(err)
	}
	if leads := <-node.LeaderCh(); !leads {
		t.Fatal("no leader")
	}
	work(node)
	if err := errors.Join(node.Shutdown().Error(), stores.Close(), transport.Close()); err != nil {
		t.Fatal(err)
	}
}

func applyMany(t *testing.T, node *raft.Raft, n int) {
	t.Helper()
	var last raft.ApplyFuture
	for i := range n {
		last = node.Apply(fmt.Appendf(nil, "command-%d", i), 0)
	}
	if err := last.Error(); err != nil {
		t.Fatal(err)
	}
}

func TestRaftOverStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runRaft(t, dir, func(node *raft.Raft) {
		applyMany(t, node, 100)
		if err := node.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		applyMany(t, node, 50)
	})
	report, err := Preflight(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if report.Empty || report.Snapshots != 1 || report.SnapshotIndex < 100 || report.LastIndex < 150 ||
		report.FirstIndex == 1 || report.Term < 2 {
		t.Errorf("report %+v", report)
	}
	last := report.LastIndex
	runRaft(t, dir, func(node *raft.Raft) { applyMany(t, node, 10) })
	if report, err = Preflight(dir, nil); err != nil || report.LastIndex < last+10 {
		t.Errorf("after the restart: %+v, %v", report, err)
	}
}
