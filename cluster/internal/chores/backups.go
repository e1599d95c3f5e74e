package chores

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

const (
	// backupLooks is how many times per interval, and maxBackupLook the maximum time after which, the chore checks
	// whether a backup is due.
	backupLooks   = 4
	maxBackupLook = time.Minute
	// backupsMissed is how many missed backups in a row are a problem.
	backupsMissed = 2
)

// Backups is the leader's chore that stores backups. The state records the last one, whichever leader made it: a new
// leader continues from there, and other objects in the depot have no effect.
type Backups struct {
	n     *Host
	Depot *depot.Depot
	// Save writes an online backup.
	Save  func(ctx context.Context, how peer.ReadOptions, w io.Writer) error
	every time.Duration
	keep  int
	// One is held by the caller that makes a backup.
	One chan struct{}

	mu sync.Mutex
	// looked reports whether this node is the leader and has checked whether a backup is due. held is the date up to
	// which the last backup contains every write, last when it was recorded in the state, and failing why the last
	// attempt stored none.
	looked     bool
	held, last rota.Date
	failing    error
}

// NewBackups returns the chore that stores a backup in d every interval, and keeps the last ones; d is nil for none.
func NewBackups(h *Host, d *depot.Depot, every time.Duration, keep int) *Backups {
	return &Backups{n: h, Depot: d, every: every, keep: keep, One: make(chan struct{}, 1)}
}

// Kept reports whether this node has a place for backups.
func (bk *Backups) Kept() bool { return bk.Depot != nil }

// Make stores a backup during a leadership.
func (bk *Backups) Make(ctx context.Context, l Term) (rota.StoredBackup, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.Life(), cancel)()
	return bk.make(ctx, l)
}

// Loop stores backups for as long as a leadership lasts.
func (bk *Backups) Loop(l Term) {
	if bk.Depot == nil {
		return
	}
	since := bk.Now()
	defer bk.note(func() { bk.looked, bk.held, bk.last, bk.failing = false, 0, 0, nil })
	tick := bk.n.Ticker(min(bk.every/backupLooks, maxBackupLook))
	defer tick.Stop()
	for {
		err := bk.Look(l, since)
		if l.Life().Err() != nil {
			return
		}
		if err != nil && bk.n.Lines.Allow("backups") {
			bk.n.Log.Error("no backup was stored", "err", err)
		}
		select {
		case <-tick.Tick():
		case <-l.Life().Done():
			return
		}
	}
}

// Look stores a backup if one is due, and records the result. None is due while nothing was written since the last.
func (bk *Backups) Look(l Term, since rota.Date) error {
	last, whole := bk.Stored()
	held := max(last.Date, bk.noted())
	if last.Index == 0 {
		held = max(since, held)
	}
	var err error
	switch now := bk.Now(); {
	case whole:
		held = now
	case last.Index == 0 || now >= last.Date+rota.Date(bk.every.Milliseconds()):
		if last, err = bk.make(l.Life(), l); err == nil {
			held = now
		}
	}
	bk.note(func() { bk.looked, bk.held, bk.last, bk.failing = true, held, last.Date, err })
	return err
}

func (bk *Backups) note(change func()) {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	change()
}

// noted returns the date up to which the last backup was seen to contain every write.
func (bk *Backups) noted() rota.Date {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	return bk.held
}

// Now returns the date by the wall clock.
func (bk *Backups) Now() rota.Date { return rota.Date(bk.n.Wall().UnixMilli()) }

// Stored returns the last backup recorded in the state, zero without one, and whether it contains every write.
func (bk *Backups) Stored() (last rota.StoredBackup, whole bool) {
	bk.n.Replica.Look(func(s *fsm.View) { last, whole, _ = fsm.LastBackup(s) })
	return last, whole
}

// make stores a backup, records it in the state, and removes old ones. Concurrent calls take turns.
func (bk *Backups) make(ctx context.Context, l Term) (rota.StoredBackup, error) {
	select {
	case bk.One <- struct{}{}:
		defer func() { <-bk.One }()
	case <-ctx.Done():
		return rota.StoredBackup{}, fault.Deadline(ctx, "waiting for another backup's end")
	}
	cluster := bk.n.ClusterID()
	b, err := bk.Depot.Put(ctx, bk.n.Node, func(w io.Writer) error { return bk.Save(ctx, peer.ReadOptions{}, w) },
		func(r io.Reader) (depot.Name, error) {
			info, err := snapshot.Inspect(r)
			if err == nil && info.ClusterID != cluster {
				err = fmt.Errorf("it is of cluster %s", info.ClusterID)
			}
			return depot.Name{Cluster: info.ClusterID, Index: info.Index}, err
		})
	if err != nil {
		return rota.StoredBackup{}, err
	}
	bk.n.Log.Info("a backup is stored", "file", b.File, "bytes", b.Bytes, "index", uint64(b.Index), "sha256",
		b.SHA256.String())
	err = l.All(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_BackupStored{BackupStored: &fsmpb.BackupStored{Index: uint64(b.Index),
		Name: b.Name.String(), Sha256: b.SHA256, Bytes: uint64(b.Bytes)}}}})
	if err != nil {
		return rota.StoredBackup{}, fmt.Errorf("tell the state of backup %s: %w", b.File, err)
	}
	gone, err := bk.Depot.Prune(ctx, cluster, b.Index, bk.keep)
	for _, b := range gone {
		bk.n.Log.Info("an old backup is removed", "file", b.File)
	}
	last, _ := bk.Stored()
	return last, err
}

// Problems reports, on the leader, that backups fail.
func (bk *Backups) Problems() (problems []string) {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	if late := bk.Now() - bk.held; bk.looked && late > rota.Date(backupsMissed*bk.every.Milliseconds()) {
		made := "there is none"
		if bk.last > 0 {
			made = "the last is of " + bk.last.String()
		}
		text := fmt.Sprintf("%d backups were missed, %s", backupsMissed, made)
		if bk.failing != nil {
			text += ": " + bk.failing.Error()
		}
		problems = append(problems, text)
	}
	return problems
}

// Collectors returns the metrics of backups.
func (bk *Backups) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_backup_timestamp_seconds",
		Help: "When the newest backup was made, Unix time, at the leader with --backup-to; else 0."}, func() float64 {
		bk.mu.Lock()
		defer bk.mu.Unlock()
		return float64(bk.last) / 1000
	})}
}
