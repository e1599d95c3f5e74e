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
	// archiveEvery and archiveAt determine when staged records are flushed (SPEC §10.5).
	archiveEvery = 2 * time.Second
	archiveAt    = 10_000
	// archiveBatchBytes bounds the transaction of one flush, whatever the payload sizes.
	archiveBatchBytes = 32 << 20
	// archivedAtOnce bounds the records released from memory under one hold of the apply lock.
	archivedAtOnce = 1_000
	// archiveLate is the age from which the oldest staged record is a problem, on a node that has been up for at least
	// as long: before that, old records come from the log that it has just replayed.
	archiveLate = 30 * time.Second
)

// errNoRoom reserves the last bytes of a disk for the log.
var errNoRoom = &rota.Error{Kind: rota.KindExhausted, Subject: "disk",
	Text: "the rest of the disk is the log's: free space there, or " +
		"enlarge the disk"}

// Archive is the node's archive of ended jobs, with the loops that maintain it: they write staged records
// asynchronously, fetch missing ones from other nodes, and delete old ones (SPEC §10.5).
type Archive struct {
	host      Host
	file      *File
	retention time.Duration
	maxBytes  uint64
	// notified requests an early flush.
	notified chan struct{}
	// began is when the node started, in time since boot.
	began time.Duration
	// flushing ensures that only one flush runs at a time.
	flushing sync.Mutex
	took     prometheus.Histogram

	mu sync.Mutex
	// failing is why the archive cannot be written, nil if it can; lackingSince is since when records have been
	// missing, in time since boot, 0 if none are.
	failing      error
	lackingSince time.Duration
}

// NewArchive returns the archive in a file. It keeps jobs that ended within retention, up to maxBytes bytes.
func NewArchive(host Host, file *File, retention time.Duration, maxBytes uint64) *Archive {
	return &Archive{host: host, file: file, retention: retention, maxBytes: maxBytes, notified: make(chan struct{}, 1),
		began: host.SinceBoot(),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rota_archive_flush_seconds",
			Help:    "Writing one batch of ended jobs to the archive.",
			Buckets: prometheus.ExponentialBuckets(0.000_05, 2, 18)})}
}

// Staged triggers a flush once enough records are staged; the caller holds the apply lock.
func (a *Archive) Staged(m *fsm.Machine) {
	if m.Staging().Records >= archiveAt {
		notify(a.notified)
	}
}

// Run flushes until the node stops. It runs on every node, leader or not.
func (a *Archive) Run() {
	tick := time.NewTicker(archiveEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.notified:
		case <-tick.C:
		case <-a.host.Life.Done():
			return // the node flushes once more when it closes the file
		}
		_ = a.Flush() // already logged, and retried
	}
}

// Flush writes the staged records in batches. It never blocks applying: it collects the records under the shared lock,
// encodes and writes them without it, and releases them from memory only once they are on disk. On failure they remain
// staged and the error is logged; the next flush retries.
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

// flushBatch writes one batch of records up to the number last.
func (a *Archive) flushBatch(last uint64) (more bool, err error) {
	var head fsm.Head
	var staged []fsm.StagedRecord
	room := a.host.Room()
	a.host.State.Look(func(s *fsm.View) {
		head, staged = s.Head(), s.Staged(archiveAt, int64(min(archiveBatchBytes, room/2)))
	})
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

// Prune deletes records older than archive_retention or beyond archive_max_bytes.
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

// Lacks returns the numbers of ended jobs that this node has neither archived nor staged, oldest first. most bounds the
// number of spans.
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

// Status describes a node's history from that node's own view.
type Status struct {
	// Staged is the number of records that wait in memory for the archive, the oldest for LagMs milliseconds. Dropped
	// records were given up before they were written.
	Staged      int64
	StagedBytes int64
	LagMs       int64
	Dropped     uint64
	// Records and Bytes count the content of the archive; OldestDate is when its oldest job ended.
	Records    uint64
	Bytes      uint64
	OldestDate rota.Date
	// Lacking records are being fetched from other nodes; Lost ones exist on no node.
	Lacking uint64
	Lost    uint64
}

// ArchiveStatus returns how far this node's history lags and what it holds.
func (a *Archive) ArchiveStatus() Status {
	kept := a.file.Jobs.Stats()
	var s fsm.Staging
	var clock rota.Clock
	if !a.host.State.Peek(func(m *fsm.View) { s, clock = m.Staging(), m.Head().Clock }) {
		return Status{Records: kept.Records, Bytes: kept.Bytes, OldestDate: kept.OldestDate, Lost: kept.Lost}
	}
	status := Status{Staged: int64(s.Records), StagedBytes: s.Bytes, Dropped: s.Dropped, Records: kept.Records,
		Bytes: kept.Bytes, OldestDate: kept.OldestDate, Lacking: a.lacking(s, maxLack).Count(), Lost: kept.Lost}
	if s.Oldest != 0 {
		status.LagMs = int64(clock - s.Since)
	}
	return status
}

// maxLack bounds the spans read to calculate a total.
const maxLack = 10_000

// Problems lists the faults of this node's history.
func (a *Archive) Problems() (problems []string) {
	s := a.ArchiveStatus()
	a.mu.Lock()
	failing, since := a.failing, a.lackingSince
	a.mu.Unlock()
	if failing != nil {
		problems = append(problems, "ended jobs are not written to the archive: "+failing.Error())
	}
	if s.LagMs > archiveLate.Milliseconds() && s.Staged > 0 && a.host.SinceBoot()-a.began > archiveLate {
		problems = append(problems,
			fmt.Sprintf("archive is %d s behind with %d ended jobs: the disk is too slow or failing",
				s.LagMs/1000, s.Staged))
	}
	if since != 0 && a.host.SinceBoot()-since > archiveLate {
		problems = append(problems,
			fmt.Sprintf("archive lacks %d ended jobs (%d were dropped here as it could not keep up): they "+
				"are fetched once the nodes that have them answer", s.Lacking, s.Dropped))
	}
	return problems
}

// Collectors returns the metrics of this node's history.
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
		gauge("staged_bytes", "Bytes of ended jobs on their way to the archive.", func(s Status) float64 { return float64(s.StagedBytes) }),
		gauge("lag_seconds", "Age of the oldest ended job on its way to the archive, on the cluster clock.", func(s Status) float64 {
			return float64(s.LagMs) / 1000
		}),
		gauge("records", "Ended jobs in the archive.", func(s Status) float64 { return float64(s.Records) }),
		gauge("bytes", "Bytes of the archived jobs, without keys and pages.",
			func(s Status) float64 { return float64(s.Bytes) }),
		gauge("oldest_timestamp_seconds", "When the oldest archived job ended, Unix time.", func(s Status) float64 {
			return float64(s.OldestDate) / 1000
		}),
		gauge("lacking", "Ended jobs that other nodes' archives have and this one still fetches.",
			func(s Status) float64 {
				return float64(s.Lacking)
			}),
		gauge("lost", "Ended jobs whose record no node's archive has.",
			func(s Status) float64 { return float64(s.Lost) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_archive_dropped_total",
			Help: "Records that left memory unwritten, as the archive did not keep up."}, func() float64 {
			return float64(a.ArchiveStatus().Dropped)
		}),
	}
}
