package cluster

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
	// DefaultBackupEvery is the default interval of backups.
	DefaultBackupEvery = time.Hour
	// DefaultBackupKeep is the default number of backups kept.
	DefaultBackupKeep = 30
	// BackupEveryLeast is the minimum interval: a backup reads the whole state.
	BackupEveryLeast = time.Second
	// BackupKeepLeast is the number of backups that are never removed.
	BackupKeepLeast = depot.KeepLeast
	// backupLooks is how many times per interval, and maxBackupLook the maximum time after which, the chore checks
	// whether a backup is due.
	backupLooks   = 4
	maxBackupLook = time.Minute
	// backupsMissed is how many missed backups in a row are a problem.
	backupsMissed = 2
)

// backups is the leader's chore that stores backups. The state records the last one, whichever leader made it: a new
// leader continues from there, and other objects in the depot have no effect.
type backups struct {
	n          *base
	membership *membership
	depot      *depot.Depot
	// save writes an online backup.
	save  func(ctx context.Context, how peer.ReadOptions, w io.Writer) error
	every time.Duration
	keep  int
	// one is held by the caller that makes a backup.
	one chan struct{}

	mu sync.Mutex
	// looked reports whether this node is the leader and has checked whether a backup is due. held is the date up to
	// which the last backup contains every write, last when it was recorded in the state, and failing why the last
	// attempt stored none.
	looked     bool
	held, last rota.Date
	failing    error
}

// loop stores backups for as long as a leadership lasts.
func (bk *backups) loop(l *leadership) {
	if bk.depot == nil {
		return
	}
	since := bk.now()
	defer bk.note(func() { bk.looked, bk.held, bk.last, bk.failing = false, 0, 0, nil })
	tick := bk.n.ticker(min(bk.every/backupLooks, maxBackupLook))
	defer tick.Stop()
	for {
		err := bk.look(l, since)
		if l.ctx.Err() != nil {
			return
		}
		if err != nil && bk.n.lines.Allow("backups") {
			bk.n.log.Error("no backup was stored", "err", err)
		}
		select {
		case <-tick.Tick():
		case <-l.ctx.Done():
			return
		}
	}
}

// look stores a backup if one is due, and records the result. None is due while nothing was written since the last.
func (bk *backups) look(l *leadership, since rota.Date) error {
	last, whole := bk.stored()
	held := max(last.Date, bk.noted())
	if last.Index == 0 {
		held = max(since, held)
	}
	var err error
	switch now := bk.now(); {
	case whole:
		held = now
	case last.Index == 0 || now >= last.Date+rota.Date(bk.every.Milliseconds()):
		if last, err = bk.make(l.ctx, l); err == nil {
			held = now
		}
	}
	bk.note(func() { bk.looked, bk.held, bk.last, bk.failing = true, held, last.Date, err })
	return err
}

func (bk *backups) note(change func()) {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	change()
}

// noted returns the date up to which the last backup was seen to contain every write.
func (bk *backups) noted() rota.Date {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	return bk.held
}

func (bk *backups) now() rota.Date { return rota.Date(bk.n.wall().UnixMilli()) }

// stored returns the last backup recorded in the state, zero without one, and whether it contains every write.
func (bk *backups) stored() (last rota.StoredBackup, whole bool) {
	bk.n.replica.Look(func(s *fsm.View) { last, whole, _ = fsm.LastBackup(s) })
	return last, whole
}

// make stores a backup, records it in the state, and removes old ones. Concurrent calls take turns.
func (bk *backups) make(ctx context.Context, l *leadership) (rota.StoredBackup, error) {
	select {
	case bk.one <- struct{}{}:
		defer func() { <-bk.one }()
	case <-ctx.Done():
		return rota.StoredBackup{}, fault.Deadline(ctx, "waiting for another backup's end")
	}
	cluster := bk.membership.ClusterID()
	b, err := bk.depot.Put(ctx, bk.n.cfg.Node, func(w io.Writer) error { return bk.save(ctx, peer.ReadOptions{}, w) },
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
	bk.n.log.Info("a backup is stored", "file", b.File, "bytes", b.Bytes, "index", uint64(b.Index), "sha256",
		b.SHA256.String())
	err = l.all(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_BackupStored{BackupStored: &fsmpb.BackupStored{Index: uint64(b.Index),
		Name: b.Name.String(), Sha256: b.SHA256, Bytes: uint64(b.Bytes)}}}})
	if err != nil {
		return rota.StoredBackup{}, fmt.Errorf("tell the state of backup %s: %w", b.File, err)
	}
	gone, err := bk.depot.Prune(ctx, cluster, b.Index, bk.keep)
	for _, b := range gone {
		bk.n.log.Info("an old backup is removed", "file", b.File)
	}
	last, _ := bk.stored()
	return last, err
}

// StoreBackup stores a backup immediately, if this node is the leader.
func (cv *clusterVerbs) StoreBackup(ctx context.Context) (rota.StoredBackup, error) {
	bk := &cv.n.backups
	if bk.depot == nil {
		return rota.StoredBackup{}, rota.Refusef(rota.KindInvalid, "backup-to",
			"node %s has no place for backups: start all nodes with --backup-to, "+
				"or take one with rota operator snapshot save", bk.n.cfg.Node)
	}
	l := cv.n.terms.leading()
	if l == nil {
		return rota.StoredBackup{}, fault.NotLeader()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	return bk.make(ctx, l)
}

// Problems reports, on the leader, that backups fail.
func (bk *backups) Problems() (problems []string) {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	if late := bk.now() - bk.held; bk.looked && late > rota.Date(backupsMissed*bk.every.Milliseconds()) {
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
func (bk *backups) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_backup_timestamp_seconds",
		Help: "When the newest backup was made, Unix time, at the leader with --backup-to; else 0."}, func() float64 {
		bk.mu.Lock()
		defer bk.mu.Unlock()
		return float64(bk.last) / 1000
	})}
}
