package cluster

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/snapshot/archive"
)

// lostMost bounds the lost records that one rebuild fetches again.
const lostMost = 10_000

// scour replaces what a wrong state left on the disk: raft's snapshots and those
// kept for audits since it was known to be right. A good one is written first, so
// that a crash at any moment leaves a state to start from. One at the very index
// that was right goes too: the state may have gone wrong after that entry.
func (rb *rebuilder) scour(record raftstore.RebuildRecord) error {
	f := rb.n.raft.Snapshot()
	if err := rb.n.settled(f); err != nil {
		return &rota.Error{Kind: rota.KindUnavailable, Subject: "rebuild", Text: "the rebuilt state was not written as a snapshot", Cause: err}
	}
	meta, content, err := f.Open()
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "rebuild", Text: "the snapshot of the rebuilt state cannot be read", Cause: err}
	}
	_ = content.Close()
	kept, err := rb.n.snapshots.List()
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "rebuild", Text: "snapshots cannot be listed", Cause: err}
	}
	var wrong []string
	for _, s := range kept {
		if s.ID != meta.ID && s.Index >= record.Agreed {
			wrong = append(wrong, s.ID)
		}
	}
	failpoint.Pass("rebuild-before-aside")
	if err := rb.asideOf(wrong); err != nil {
		return err
	}
	if err := rb.n.audit.ForgetAfter(record.Agreed, meta.Index); err != nil {
		return err
	}
	// A job that ended before, and once more in the wrong state alone, lost its record.
	frozen, err := rb.n.replica.freezeWhole()
	if err != nil {
		return err
	}
	lost, err := rb.n.beside.Jobs.Missing(frozen.Unstaged(), lostMost)
	if err != nil && !errors.Is(err, archive.ErrRecordDamaged) || len(lost) == 0 {
		return err
	}
	return rb.n.beside.Jobs.Drop(lost)
}

// asideOf moves snapshots out of raft's sight.
func (rb *rebuilder) asideOf(wrong []string) error {
	moved, err := rb.n.snapshots.SetAside(wrong...)
	for i, to := range moved {
		rb.n.log.Warn("a snapshot of the wrong state was set aside", "snapshot", wrong[i], "moved", to)
	}
	if err != nil {
		return &rota.Error{Kind: rota.KindInternal, Subject: "rebuild", Text: "a snapshot of the wrong state cannot be set aside", Cause: err}
	}
	return nil
}

// silent reports that this node must not stand: its state is wrong, or applying stalls.
func (rb *rebuilder) silent() bool {
	return rb.active.Load() || rb.n.watchdog.stalled.Load() > 0
}

// muted reports that this node must not be heard as a leader.
func (rb *rebuilder) muted() bool { return rb.mute.Load() || rb.n.watchdog.mute.Load() }

// Problems says what is wrong.
func (rb *rebuilder) Problems() (problems []string) {
	record := rb.n.data.Rebuild()
	if !record.Open {
		return nil
	}
	text := fmt.Sprintf("state differed from the majority's at index %d and is being rebuilt; nothing is to be done but to keep the "+
		"other nodes up", record.At)
	if !rb.active.Load() {
		text = fmt.Sprintf("state differed from the majority's at index %d and was rebuilt; what it left on the disk is being replaced",
			record.At)
	}
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if rb.why != nil {
		text += ": " + rb.why.Error()
	}
	return []string{text}
}

func (rb *rebuilder) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_state_rebuilding",
			Help: "1 while this node's state is wrong and not served."}, func() float64 {
			if rb.active.Load() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_state_rebuilds_total",
			Help: "States that were wrong and were rebuilt from another node's."}, func() float64 {
			rb.mu.Lock()
			defer rb.mu.Unlock()
			return float64(rb.done)
		}),
	}
}
