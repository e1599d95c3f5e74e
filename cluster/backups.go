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
	// one is due: another leader may have made it.
	backupLooks    = 4
	backupLookMost = time.Minute
	// backupsMissed in a row are a problem.
	backupsMissed = 2
)

// backups are the leader's chore that stores backups. What the depot holds says when the last
// one was made, and by whichever leader: a new leader goes on from there.
type backups struct {
	n     *Node
	depot *depot.Depot
	// save writes an online backup.
	save  func(ctx context.Context, how peer.ReadOptions, w io.Writer) error
	every time.Duration
	keep  int

	mu sync.Mutex
	// leads reports that this node's leadership looks after backups, since when; last is when
	// the newest was made, held until when it has all that was written, and failing why the
	// last try stored none.
	leads             bool
	since, last, held rota.Date
	failing           error
}

// loop stores backups for as long as a leadership lasts.
func (bk *backups) loop(l *leadership) {
	if bk.depot == nil {
		return
	}
	bk.note(func() { bk.leads, bk.since, bk.last, bk.held, bk.failing = true, bk.now(), 0, 0, nil })
	defer bk.note(func() { bk.leads = false })
	tick := time.NewTicker(min(bk.every/backupLooks, backupLookMost))
	defer tick.Stop()
	for {
		err := bk.look(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		if err != nil && bk.n.lines.Allow("backups") {
			bk.n.log.Error("no backup was stored", "err", err)
		}
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// look stores a backup where one is due, and notes what came of it.
func (bk *backups) look(ctx context.Context) error {
	made, held, err := bk.once(ctx)
	bk.note(func() { bk.last, bk.held, bk.failing = max(bk.last, made), max(bk.held, held), err })
	return err
}

func (bk *backups) note(change func()) {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	change()
}

func (bk *backups) now() rota.Date { return rota.Date(bk.n.wall().UnixMilli()) }

// once stores a backup where one is due, and returns when the newest was made, and until
// when it has all that was written: none is due while nothing is.
func (bk *backups) once(ctx context.Context) (made, held rota.Date, err error) {
	all, err := bk.depot.List(ctx)
	if err != nil {
		return 0, 0, err
	}
	var head fsm.Head
	bk.n.replica.look(func(s *fsm.View) { head = s.Head() })
	if own := depot.Of(all, head.ClusterID); len(own) > 0 {
		newest := own[len(own)-1]
		made = newest.Made
		switch now := bk.now(); {
		case newest.Index == head.Index:
			return made, now, nil
		case now < made+rota.Date(bk.every.Milliseconds()):
			return made, made, nil
		}
	}
	b, err := bk.depot.Put(ctx, bk.n.cfg.Node, func(w io.Writer) error { return bk.save(ctx, peer.ReadOptions{}, w) },
		func(r io.Reader) (depot.Name, error) {
			info, err := snapshot.Inspect(r)
			if err == nil && info.ClusterID != head.ClusterID {
				err = fmt.Errorf("it is of cluster %s", info.ClusterID)
			}
			return depot.Name{Cluster: info.ClusterID, Index: info.Index}, err
		})
	if err != nil {
		return made, made, err
	}
	bk.n.log.Info("a backup is stored", "file", b.File, "bytes", b.Bytes, "index", uint64(b.Index))
	gone, err := bk.depot.Prune(ctx, head.ClusterID, b.Index, bk.keep)
	for _, b := range gone {
		bk.n.log.Info("an old backup is removed", "file", b.File)
	}
	return b.Made, b.Made, err
}

// Problems says that backups fail, at the leader.
func (bk *backups) Problems() (problems []string) {
	bk.mu.Lock()
	defer bk.mu.Unlock()
	if late := bk.now() - max(bk.held, bk.since); bk.leads && late > rota.Date(backupsMissed*bk.every.Milliseconds()) {
		made := "none was seen"
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
		if !bk.leads {
			return 0
		}
		return float64(bk.last) / 1000
	})}
}
