package rebuild

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/snapshot/archive"
)

// maxLost bounds the lost records that one rebuild fetches again.
const maxLost = 10_000

// scour replaces the files that a wrong state left on the disk: raft's snapshots, and those kept for audits since the
// state was last known to be right. It writes a good snapshot first, so that a crash at any moment leaves a state to
// start from. A snapshot at exactly the last right index is replaced too: the state may have gone wrong after that
// entry.
func (rb *Rebuilder) scour(record raftstore.RebuildRecord) error {
	meta, err := rb.host.Snapshot()
	if err != nil {
		return &rota.Error{Kind: rota.KindUnavailable, Subject: "rebuild",
			Text: "the rebuilt state was not written as a snapshot", Cause: err}
	}
	kept, err := rb.host.Snapshots.List()
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
	if err := rb.host.setAside(rb.host.Log, wrong); err != nil {
		return err
	}
	if err := rb.host.Audit.ForgetAfter(record.Agreed, meta.Index); err != nil {
		return err
	}
	// A job that ended earlier, and again only in the wrong state, lost its record.
	frozen, err := rb.host.State.Freeze()
	if err != nil {
		return err
	}
	lost, err := rb.host.File.Jobs.Missing(frozen.Unstaged(), maxLost)
	if err != nil && !errors.Is(err, archive.ErrRecordDamaged) || len(lost) == 0 {
		return err
	}
	return rb.host.File.Jobs.Drop(lost)
}

// Problems lists the faults.
func (rb *Rebuilder) Problems() (problems []string) {
	record := rb.host.Data.Rebuild()
	if !record.Open {
		return nil
	}
	text := fmt.Sprintf(
		"state differed from the majority's at index %d and is being rebuilt; nothing is to be done but to keep the "+
			"other nodes up", record.At)
	if !rb.host.State.Dropped() {
		text = fmt.Sprintf(
			"state differed from the majority's at index %d and was rebuilt; what it left on the disk is being replaced",
			record.At)
	}
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if rb.why != nil {
		text += ": " + rb.why.Error()
	}
	return []string{text}
}

// Collectors returns the metrics on whether this node's state is right.
func (rb *Rebuilder) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		rb.mismatches,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_state_rebuilding",
			Help: "1 while this node's state is wrong and not served."}, func() float64 {
			if rb.host.State.Dropped() {
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
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_state_agreed_index",
			Help: "The newest compared log entry after which a majority of the voters held this node's digest."},
			func() float64 {
				rb.mu.Lock()
				defer rb.mu.Unlock()
				return float64(rb.agreed.index)
			}),
	}
}
