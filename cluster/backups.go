package cluster

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

const (
	// DefaultBackupEvery is how often a backup is made.
	DefaultBackupEvery = time.Hour
	// DefaultBackupKeep is how many are kept.
	DefaultBackupKeep = 30
	// BackupEveryLeast is the least time between two: a backup reads the whole state.
	BackupEveryLeast = time.Second
	// BackupKeepLeast never go.
	BackupKeepLeast = depot.KeepLeast
	// backupLooks is how often in that time, and backupLookMost how late, is looked whether
	// one is due.
	backupLooks    = 4
	backupLookMost = time.Minute
	// backupsMissed in a row are a problem.
	backupsMissed = 2
)

// backups are the leader's chore that stores backups. The state says which was the last one,
// whichever leader made it: a new leader goes on from there, and what others put into the depot
// changes nothing.
type backups struct {
	n          *base
	membership *membership
	depot      *depot.Depot
	// save writes an online backup.
	save  func(ctx context.Context, how peer.ReadOptions, w io.Writer) error
	every time.Duration
	keep  int
	// one is had by whoever makes a backup.
	one chan struct{}

	mu sync.Mutex
	// looked is whether this node leads and has looked whether a backup is due; held is until
	// when the last one has all that was written, last when the state learned of it, and failing why the
	// last try stored none.
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
	tick := bk.n.ticker(min(bk.every/backupLooks, backupLookMost))
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

// look stores a backup where one is due, and notes what came of it. None is due while nothing
// was written since the last.
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

// noted is until when the last backup was seen to have all that was written.
func (bk *backups) noted() rota.Date {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	return bk.held
}

func (bk *backups) now() rota.Date { return rota.Date(bk.n.wall().UnixMilli()) }

// stored is the last backup as the state records it, zero without one, and whether it has all
// that was written.
func (bk *backups) stored() (last rota.StoredBackup, whole bool) {
	bk.n.replica.look(func(s *fsm.View) { last, whole, _ = fsm.LastBackup(s) })
	return last, whole
}

// make stores a backup, tells the state of it, and removes old ones. Those that make one at
// the same time take turns.
func (bk *backups) make(ctx context.Context, l *leadership) (rota.StoredBackup, error) {
	select {
	case bk.one <- struct{}{}:
		defer func() { <-bk.one }()
	case <-ctx.Done():
		return rota.StoredBackup{}, ctxError(ctx, "waiting for another backup's end")
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
	bk.n.log.Info("a backup is stored", "file", b.File, "bytes", b.Bytes, "index", uint64(b.Index), "sha256", b.SHA256.String())
	err = l.all(ctx, []*fsmpb.Op{{Op: &fsmpb.Op_BackupStored{BackupStored: &fsmpb.BackupStored{Index: uint64(b.Index), Name: b.Name.String(),
		Sha256: b.SHA256, Bytes: uint64(b.Bytes)}}}})
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

// StoreBackup stores a backup at once, if this node leads.
func (cv *clusterVerbs) StoreBackup(ctx context.Context) (rota.StoredBackup, error) {
	bk := &cv.n.backups
	if bk.depot == nil {
		return rota.StoredBackup{}, rota.Refusef(rota.KindInvalid, "backup-to", "node %s has no place for backups: start all nodes with --backup-to, "+
			"or take one with rota operator snapshot save", bk.n.cfg.Node)
	}
	l := cv.n.terms.leading()
	if l == nil {
		return rota.StoredBackup{}, notLeader()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	return bk.make(ctx, l)
}

// Problems says that backups fail, at the leader.
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

// Collectors are the metrics of backups.
func (bk *backups) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_backup_timestamp_seconds",
		Help: "When the newest backup was made, Unix time, at the leader with --backup-to; else 0."}, func() float64 {
		bk.mu.Lock()
		defer bk.mu.Unlock()
		return float64(bk.last) / 1000
	})}
}
