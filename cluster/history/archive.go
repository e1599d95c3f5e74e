package history

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
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
	// archiveLate is the age of the oldest staged record that is a problem, on a node that has run
	// for as long: before that, what is old is what it has just replayed.
	archiveLate = 30 * time.Second
)

// errNoRoom keeps the last bytes of a disk for the log.
var errNoRoom = &rota.Error{Kind: rota.KindExhausted, Subject: "disk", Text: "the rest of the disk is the log's: free space there, or " +
	"enlarge the disk"}

// Archive is the node's archive of ended jobs, and the loops that keep it: staged records
// are written behind, what the node lacks is fetched from others, and what is old is taken
// (SPEC §10.5).
type Archive struct {
	host      Host
	file      *File
	retention time.Duration
	maxBytes  uint64
	// notified asks for a flush before its time.
	notified chan struct{}
	// began is when the node came up, in time since boot.
	began time.Duration
	// flushing lets one flush run at a time.
	flushing sync.Mutex
	took     prometheus.Histogram

	mu sync.Mutex
	// failing is why the archive cannot be written, nil while it can; lackingSince
	// is since when records lack, in time since boot, 0 while none do.
	failing      error
	lackingSince time.Duration
}

// NewArchive returns the archive in a file, of jobs that ended within retention and of so
// many bytes at most.
func NewArchive(host Host, file *File, retention time.Duration, maxBytes uint64) *Archive {
	return &Archive{host: host, file: file, retention: retention, maxBytes: maxBytes, notified: make(chan struct{}, 1), began: host.SinceBoot(),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rota_archive_flush_seconds",
			Help: "Writing one batch of ended jobs to the archive.", Buckets: prometheus.ExponentialBuckets(0.000_05, 2, 18)})}
}

// Staged notifies the flush when enough is staged; the caller holds the apply lock.
func (a *Archive) Staged(m *fsm.Machine) {
	if m.Staging().Records >= archiveAt {
		notify(a.notified)
	}
}

// Run flushes until the node stops; on every node, leading or not.
func (a *Archive) Run() {
	tick := time.NewTicker(archiveEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.notified:
		case <-tick.C:
		case <-a.host.Life.Done():
			return // the node flushes once more as it closes the file
		}
		_ = a.Flush() // logged already, and tried again
	}
}

// Flush writes what is staged in batches. It never blocks applying: the
// records are taken under the shared lock and encoded and written without it;
// they leave memory only once they are on disk. A failure leaves them staged and
// is logged; the next flush tries again.
func (a *Archive) Flush() error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	var last uint64
	a.host.State.Look(func(s *fsm.View) { last = s.Staging().Last })
	for {
		more, err := a.flushBatch(last)
		a.mu.Lock()
		before := a.failing
		a.failing = err
		a.mu.Unlock()
		switch {
		case err != nil:
			if a.host.Lines.Allow("archive/flush") {
				a.host.Log.Error("ended jobs are not written to the archive", "err", err)
			}
			return err
		case before != nil:
			a.host.Log.Info("the archive is written again")
		}
		if !more {
			return nil
		}
	}
}

// flushBatch writes one batch of records up to a number.
func (a *Archive) flushBatch(last uint64) (more bool, err error) {
	var head fsm.Head
	var staged []fsm.StagedRecord
	room := a.host.Room()
	a.host.State.Look(func(s *fsm.View) { head, staged = s.Head(), s.Staged(archiveAt, int64(min(archiveBatchBytes, room/2))) })
	if len(staged) == 0 || staged[0].Seq > last {
		return false, nil
	}
	if room == 0 {
		return false, errNoRoom
	}
	if _, err := a.file.claim(head); err != nil {
		return false, err
	}
	seqs := make([]uint64, len(staged))
	for i, s := range staged {
		seqs[i] = s.Seq
	}
	failpoint.Pass("archive-before-flush")
	start := time.Now()
	if err := a.file.Jobs.PutStaged(staged, head.Index); err != nil {
		return false, err
	}
	failpoint.Pass("archive-after-flush")
	a.took.Observe(time.Since(start).Seconds())
	for len(seqs) > 0 {
		k := min(len(seqs), archivedAtOnce)
		a.host.State.Archived(seqs[:k])
		seqs = seqs[k:]
	}
	return true, nil
}

// Prune takes what is older than archive_retention, or beyond archive_max_bytes.
func (a *Archive) Prune() {
	date := a.host.State.head().Date
	if date <= 0 {
		return
	}
	pruned, err := a.file.Jobs.Prune(date-rota.Date(a.retention.Milliseconds()), a.maxBytes)
	if err != nil && a.host.Lines.Allow("archive/prune") {
		a.host.Log.Error("the archive's retention failed", "err", err)
	}
	if pruned > 0 {
		a.host.Log.Info("retention took ended jobs from the archive", "records", pruned)
	}
}

// Lacks returns the numbers of ended jobs that this node neither holds nor has
// staged, oldest first, at most so many spans.
func (a *Archive) Lacks(most int) archive.Spans {
	var staging fsm.Staging
	a.host.State.Look(func(s *fsm.View) { staging = s.Staging() })
	return a.lacking(staging, most)
}

func (a *Archive) lacking(s fsm.Staging, most int) archive.Spans {
	last := s.Last
	if s.Oldest != 0 {
		last = s.Oldest - 1
	}
	return a.file.Jobs.Lacks(last, most)
}

// Status is a node's history as the node itself sees it.
type Status struct {
	// Staged records wait in memory for the archive, for LagMs by now. Dropped were
	// given up before they were written.
	Staged      int64
	StagedBytes int64
	LagMs       int64
	Dropped     uint64
	// Records and Bytes are in the archive; OldestDate is of the oldest one's end.
	Records    uint64
	Bytes      uint64
	OldestDate rota.Date
	// Lacking records are fetched from other nodes; Lost ones no node has.
	Lacking uint64
	Lost    uint64
}

// ArchiveStatus returns how far this node's history is behind and what it holds.
func (a *Archive) ArchiveStatus() Status {
	kept := a.file.Jobs.Stats()
	var s fsm.Staging
	var clock rota.Clock
	if !a.host.State.Peek(func(m *fsm.View) { s, clock = m.Staging(), m.Head().Clock }) {
		return Status{Records: kept.Records, Bytes: kept.Bytes, OldestDate: kept.OldestDate, Lost: kept.Lost}
	}
	status := Status{Staged: int64(s.Records), StagedBytes: s.Bytes, Dropped: s.Dropped, Records: kept.Records,
		Bytes: kept.Bytes, OldestDate: kept.OldestDate, Lacking: a.lacking(s, lackMost).Count(), Lost: kept.Lost}
	if s.Oldest != 0 {
		status.LagMs = int64(clock - s.Since)
	}
	return status
}

// lackMost bounds the spans looked at where only their sum is asked for.
const lackMost = 10_000

// Problems lists what is wrong with this node's history.
func (a *Archive) Problems() (problems []string) {
	s := a.ArchiveStatus()
	a.mu.Lock()
	failing, since := a.failing, a.lackingSince
	a.mu.Unlock()
	if failing != nil {
		problems = append(problems, "ended jobs are not written to the archive: "+failing.Error())
	}
	if s.LagMs > archiveLate.Milliseconds() && s.Staged > 0 && a.host.SinceBoot()-a.began > archiveLate {
		problems = append(problems, fmt.Sprintf("archive is %d s behind with %d ended jobs: the disk is too slow or failing",
			s.LagMs/1000, s.Staged))
	}
	if since != 0 && a.host.SinceBoot()-since > archiveLate {
		problems = append(problems, fmt.Sprintf("archive lacks %d ended jobs (%d were dropped here as it could not keep up): they "+
			"are fetched once the nodes that have them answer", s.Lacking, s.Dropped))
	}
	return problems
}

// Collectors are the metrics of this node's history.
func (a *Archive) Collectors() []prometheus.Collector {
	gauge := func(name, help string, read func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_archive_" + name, Help: help}, func() float64 {
			return read(a.ArchiveStatus())
		})
	}
	return []prometheus.Collector{
		a.took,
		gauge("staged", "Ended jobs in memory on their way to the archive.", func(s Status) float64 {
			return float64(s.Staged)
		}),
		gauge("staged_bytes", "Bytes of them.", func(s Status) float64 { return float64(s.StagedBytes) }),
		gauge("lag_seconds", "Age of the oldest of them, on the cluster clock.", func(s Status) float64 {
			return float64(s.LagMs) / 1000
		}),
		gauge("records", "Ended jobs in the archive.", func(s Status) float64 { return float64(s.Records) }),
		gauge("bytes", "Bytes of them, keys and pages not counted.", func(s Status) float64 { return float64(s.Bytes) }),
		gauge("oldest_timestamp_seconds", "When the oldest of them ended, Unix time.", func(s Status) float64 {
			return float64(s.OldestDate) / 1000
		}),
		gauge("lacking", "Ended jobs that other nodes' archives have and this one still fetches.", func(s Status) float64 {
			return float64(s.Lacking)
		}),
		gauge("lost", "Ended jobs whose record no node's archive has.", func(s Status) float64 { return float64(s.Lost) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_archive_dropped_total",
			Help: "Records that left memory unwritten, as the archive did not keep up."}, func() float64 {
			return float64(a.ArchiveStatus().Dropped)
		}),
	}
}
