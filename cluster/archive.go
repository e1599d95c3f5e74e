package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/boltfile"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// archiveEvery and archiveAt are when staged records are flushed (SPEC §10.5).
	archiveEvery = 2 * time.Second
	archiveAt    = 10_000
	// archiveBatchBytes bounds one flush's transaction, whatever the payloads.
	archiveBatchBytes = 32 << 20
	// archivedAtOnce bounds the records that one hold of the apply lock lets go of.
	archivedAtOnce = 1_000
	// pruneEvery is how often retention looks at the archive.
	pruneEvery = time.Hour
	// archiveLate is the age of the oldest staged record that is a problem.
	archiveLate = 30 * time.Second
)

// history is the node's archive of terminal jobs, and the chores that keep it:
// staged records are written behind, what the node lacks is fetched from others,
// and what is old is taken (SPEC §10.5).
type history struct {
	n     *Node
	store *archive.Jobs
	// notify asks for a flush before its time.
	notify chan struct{}
	// flushing lets one flush run at a time.
	flushing sync.Mutex

	mu sync.Mutex
	// failing is why the archive cannot be written, nil while it can; lackingSince
	// is since when records lack, in time since boot, 0 while none do.
	failing      error
	lackingSince time.Duration
}

// open takes the archive's part for terminal jobs. One of another cluster
// is refused by name: its numbers mean other jobs.
func (h *history) open() error {
	store, err := archive.OpenJobs(h.n.archiveDB)
	if err != nil {
		return err
	}
	own := h.n.data.ClusterID()
	switch cluster, _ := store.Cluster(); {
	case cluster == "" || cluster == own:
	case own != "":
		return rota.Refusef(rota.KindConflict, "archive", "%s holds the history of cluster %s, but this node belongs to cluster %s: move "+
			"the file away, and the right history is fetched from the other nodes", h.n.archiveDB.Path(), cluster, own)
	case h.n.data.Fresh():
		return rota.Refusef(rota.KindConflict, "archive", "%s holds the history of cluster %s, but this node has no state yet: move the "+
			"file away", h.n.archiveDB.Path(), cluster)
	}
	h.store = store
	return nil
}

// wanted notifies the flush when enough is staged; the caller holds the apply lock.
func (h *history) wanted(m *fsm.Machine) {
	if m.Staging().Records < archiveAt {
		return
	}
	select {
	case h.notify <- struct{}{}:
	default:
	}
}

// run flushes and prunes; on every node, leading or not.
func (h *history) run() {
	tick, prune := time.NewTicker(archiveEvery), time.NewTicker(pruneEvery)
	defer tick.Stop()
	defer prune.Stop()
	for {
		select {
		case <-h.notify:
			_ = h.flush() // said already, and tried again
		case <-tick.C:
			_ = h.flush()
		case <-prune.C:
			h.prune()
			if l := h.n.terms.leading(); l != nil {
				h.dropDeleted(l)
			}
		case <-h.n.stopped:
			return // closeAll flushes once more
		}
	}
}

// flush writes what is staged in batches. It never blocks applying: the
// records are taken under the shared lock and encoded and written without it;
// they leave memory only once they are on disk. A failure leaves them staged and
// is told; the next flush tries again.
func (h *history) flush() error {
	h.flushing.Lock()
	defer h.flushing.Unlock()
	last := h.n.replica.staging().Last
	for {
		more, err := h.flushBatch(last)
		h.mu.Lock()
		before := h.failing
		h.failing = err
		h.mu.Unlock()
		switch {
		case err != nil:
			if h.n.lines.Allow("archive/flush") {
				h.n.log.Error("ended jobs are not written to the archive", "err", err)
			}
			return err
		case before != nil:
			h.n.log.Info("the archive is written again")
		}
		if !more {
			return nil
		}
	}
}

// flushBatch writes one batch of records up to a number.
func (h *history) flushBatch(last uint64) (more bool, err error) {
	var head fsm.Head
	var staged []fsm.StagedRecord
	h.n.replica.look(func(s *fsm.View) { head, staged = s.Head(), s.Staged(archiveAt, archiveBatchBytes) })
	if len(staged) == 0 || staged[0].Seq > last {
		return false, nil
	}
	if err := h.store.Claim(head.ClusterID, head.Incarnation); err != nil {
		return false, err
	}
	seqs := make([]uint64, len(staged))
	for i, s := range staged {
		seqs[i] = s.Seq
	}
	failpoint.Pass("archive-before-flush")
	start := time.Now()
	if err := h.store.PutStaged(staged); err != nil {
		return false, err
	}
	failpoint.Pass("archive-after-flush")
	h.n.measures.flush.Observe(time.Since(start).Seconds())
	for len(seqs) > 0 {
		k := min(len(seqs), archivedAtOnce)
		h.n.replica.archived(seqs[:k])
		seqs = seqs[k:]
	}
	return true, nil
}

// prune takes what is older than archive_retention, or beyond
// archive_max_bytes.
func (h *history) prune() {
	date := h.n.replica.head().Date
	if date <= 0 {
		return
	}
	pruned, err := h.store.Prune(date-rota.Date(h.n.cfg.ArchiveRetention.Milliseconds()), h.n.cfg.ArchiveMaxBytes)
	if err != nil && h.n.lines.Allow("archive/prune") {
		h.n.log.Error("the archive's retention failed", "err", err)
	}
	if pruned > 0 {
		h.n.log.Info("retention took ended jobs from the archive", "records", pruned)
	}
}

// lacks returns the numbers of ended jobs that this node neither holds nor has
// staged, oldest first, at most so many spans.
func (h *history) lacks(most int) archive.Spans {
	return h.lacking(h.n.replica.staging(), most)
}

func (h *history) lacking(s fsm.Staging, most int) archive.Spans {
	last := s.Last
	if s.Oldest != 0 {
		last = s.Oldest - 1
	}
	return h.store.Lacks(last, most)
}

// ArchiveStatus returns how far this node's history is behind and what it holds.
func (h *history) ArchiveStatus() rota.ArchiveStatus {
	a := h.store.Stats()
	var s fsm.Staging
	var clock rota.Clock
	if !h.n.replica.peek(func(m *fsm.View) { s, clock = m.Staging(), m.Head().Clock }) {
		return rota.ArchiveStatus{Records: a.Records, Bytes: a.Bytes, OldestDate: a.OldestDate, Lost: a.Lost}
	}
	status := rota.ArchiveStatus{Staged: int64(s.Records), StagedBytes: s.Bytes, Dropped: s.Dropped, Records: a.Records,
		Bytes: a.Bytes, OldestDate: a.OldestDate, Lacking: h.lacking(s, lackMost).Count(), Lost: a.Lost}
	if s.Oldest != 0 {
		status.LagMs = int64(clock - s.Since)
	}
	return status
}

// lackMost bounds the spans looked at where only their sum is asked for.
const lackMost = 10_000

// problems lists what is wrong with this node's history.
func (h *history) problems() (problems []string) {
	s := h.ArchiveStatus()
	h.mu.Lock()
	failing, since := h.failing, h.lackingSince
	h.mu.Unlock()
	if failing != nil {
		problems = append(problems, "ended jobs are not written to the archive: "+failing.Error())
	}
	if s.LagMs > archiveLate.Milliseconds() && s.Staged > 0 {
		problems = append(problems, fmt.Sprintf("archive is %d s behind with %d ended jobs: the disk is too slow or failing",
			s.LagMs/1000, s.Staged))
	}
	if since != 0 && h.n.sinceBoot()-since > archiveLate {
		problems = append(problems, fmt.Sprintf("archive lacks %d ended jobs (%d were dropped here as it could not keep up): they "+
			"are fetched once the nodes that have them answer", s.Lacking, s.Dropped))
	}
	return problems
}

// collectors are the metrics of this node's history.
func (h *history) collectors() []prometheus.Collector {
	gauge := func(name, help string, read func(rota.ArchiveStatus) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_archive_" + name, Help: help}, func() float64 {
			return read(h.ArchiveStatus())
		})
	}
	return []prometheus.Collector{
		gauge("staged", "Ended jobs in memory on their way to the archive.", func(s rota.ArchiveStatus) float64 {
			return float64(s.Staged)
		}),
		gauge("staged_bytes", "Bytes of them.", func(s rota.ArchiveStatus) float64 { return float64(s.StagedBytes) }),
		gauge("lag_seconds", "Age of the oldest of them, on the cluster clock.", func(s rota.ArchiveStatus) float64 {
			return float64(s.LagMs) / 1000
		}),
		gauge("records", "Ended jobs in the archive.", func(s rota.ArchiveStatus) float64 { return float64(s.Records) }),
		gauge("bytes", "Bytes of them, keys and pages not counted.", func(s rota.ArchiveStatus) float64 { return float64(s.Bytes) }),
		gauge("oldest_timestamp_seconds", "When the oldest of them ended, Unix time.", func(s rota.ArchiveStatus) float64 {
			return float64(s.OldestDate) / 1000
		}),
		gauge("lacking", "Ended jobs that other nodes' archives have and this one still fetches.", func(s rota.ArchiveStatus) float64 {
			return float64(s.Lacking)
		}),
		gauge("lost", "Ended jobs whose record no node's archive has.", func(s rota.ArchiveStatus) float64 { return float64(s.Lost) }),
		gauge("dropped", "Records that left memory unwritten since the start, as the archive did not keep up.",
			func(s rota.ArchiveStatus) float64 { return float64(s.Dropped) }),
	}
}

// openArchive opens the file that retained events and the archive of jobs share,
// and what each keeps there. Its pages are checked first, as the log's are: bbolt
// ends the process over some damage, and over other damage loses records without a
// word.
func (n *Node) openArchive() (err error) {
	path := filepath.Join(n.cfg.Data, archive.FileName)
	defer boltfile.FaultsPanic()()
	defer func() {
		if what := recover(); what != nil {
			err = archiveDamaged(path, fmt.Sprintf("bbolt cannot read it (%v)", what))
		}
	}()
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if err := boltfile.Check(path, archiveDamaged); err != nil {
			return err
		}
	}
	if n.archiveDB, err = archive.Open(path); err != nil {
		return err
	}
	n.archiveDB.NoSync = n.cfg.World.NoSync
	failpointArchive(n.archiveDB)
	n.eventFeed.events = newEventLog(n.cfg.EventsRetained, n.log)
	n.eventFeed.events.store, err = archive.OpenEvents(n.archiveDB, n.cfg.EventsRetained)
	return err
}

// archiveDamaged words an archive that cannot be trusted: nothing of a promise is in it.
func archiveDamaged(path, what string) *rota.Error {
	return rota.Refusef(rota.KindConflict, "archive", "%s is damaged: %s. Move it away and start again: ended jobs and events are "+
		"fetched from the other nodes (on a cluster of one they are lost, unless a backup holds them)", path, what)
}
