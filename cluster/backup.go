package cluster

import (
	"context"
	"io"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// backupWait bounds how long a backup waits for history that is being fetched, backupLook is how often it checks.
	backupWait = 10 * time.Second
	backupLook = 100 * time.Millisecond
)

// SaveSnapshot writes an online backup: this node's state, then its history. It fails if the node's history has gaps:
// the backup would hold less than the cluster does. A stale backup holds whatever this node has. The log records the
// caller before the first byte is written.
func (cv *clusterVerbs) SaveSnapshot(ctx context.Context, how peer.ReadOptions, w io.Writer) error {
	asked := ctx
	if how.Stale { // the last resort without a leader or quorum
		ctx = access.Itself(ctx)
	}
	if _, err := cv.n.replica.Fresh(ctx, how); err != nil {
		return err
	}
	if !how.Stale {
		if err := cv.awaitHistory(ctx); err != nil {
			return err
		}
	}
	if err := cv.n.archive.Flush(); err != nil {
		return err
	}
	past, release := cv.n.audit.Hold()
	defer release()
	frozen, err := cv.n.replica.FreezeWhole()
	if err != nil {
		return err
	}
	if frozen.Info().ClusterID == "" {
		return &rota.Error{Kind: rota.KindUnavailable, Subject: "cluster_id", RetryAfter: backupWait,
			Text: "this node has no state yet: back up another node, or try again later"}
	}
	if err := cv.tellRead(asked, how.Stale, frozen.Info().Index); err != nil {
		return err
	}
	start := time.Now()
	if _, err = snapshot.Write(w, backup{frozen, cv.n.historyFile.Jobs, past, cv.n.stores.Log}); err == nil {
		cv.n.measures.Written.Observe(time.Since(start).Seconds())
	}
	return err
}

// tellRead records in the log that a caller is about to receive this node's state at an index. Snapshots that the node
// takes for itself are recorded when they are stored. If no leader accepts the entry, a stale backup, which is meant
// for rescue, is recorded in this node's own log instead.
func (cv *clusterVerbs) tellRead(ctx context.Context, stale bool, index rota.Index) error {
	caller, called := ctx.Value(access.CallerKey{}).(access.Caller)
	if !called {
		return nil
	}
	if _, leader := cv.n.raft.LeaderWithID(); leader != "" || !stale {
		ctx, cancel := context.WithTimeout(ctx, replica.BarrierTimeout)
		defer cancel()
		_, _, err := cv.n.proposer.proposeOne(ctx,
			&fsmpb.Op{Op: &fsmpb.Op_ReadSnapshot{ReadSnapshot: &fsmpb.ReadSnapshot{
				Node: string(cv.n.cfg.Node), Index: uint64(index)}}})
		if !stale || rota.KindOf(err) != rota.KindUnavailable {
			return err
		}
	}
	cv.n.log.Warn("a backup is read, and no leader is there to tell it to the cluster", "actor", string(caller.Actor),
		"via", caller.Via, "request_id", caller.Request, "index", uint64(index))
	return nil
}

// SaveState writes this node's state for a node that rebuilds its own.
func (cv *clusterVerbs) SaveState(_ context.Context, w io.Writer) error {
	if err := cv.n.Ready(); err != nil {
		return err
	}
	frozen, err := cv.n.replica.FreezeWhole()
	if err != nil {
		return err
	}
	_, err = snapshot.Write(w, frozen)
	return err
}

// backup combines a state, its history and the data that its audits replay into one source.
type backup struct {
	*fsm.Frozen
	archive *archive.Jobs
	past    *audit.Past
	log     audit.Log
}

// Records implements snapshot.Source.
func (b backup) Records(yield func(kind byte, record []byte) error) error {
	if err := b.Frozen.Records(yield); err != nil {
		return err
	}
	if err := b.archive.Section(b.Ended(), yield); err != nil || b.past == nil {
		return err
	}
	return b.past.Sections(b.log, uint64(b.Info().Index), yield)
}

// awaitHistory waits until this node's history has no gaps.
func (cv *clusterVerbs) awaitHistory(ctx context.Context) error {
	late := time.NewTimer(backupWait)
	defer late.Stop()
	for {
		if len(cv.n.archive.Lacks(1)) == 0 {
			return nil
		}
		select {
		case <-late.C:
			return &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: backupWait,
				Text: "this node still fetches the " +
					"history of ended jobs that it lacks: back up another node, or try again later"}
		case <-time.After(backupLook):
		case <-ctx.Done():
			return fault.Deadline(ctx, "waiting for this node's history")
		case <-cv.n.stopped:
			return fault.Stopping()
		}
	}
}

// StoreBackup stores a backup immediately, if this node is the leader.
func (cv *clusterVerbs) StoreBackup(ctx context.Context) (rota.StoredBackup, error) {
	bk := cv.n.backups
	if !bk.Kept() {
		return rota.StoredBackup{}, rota.Refusef(rota.KindInvalid, "backup-to",
			"node %s has no place for backups: start all nodes with --backup-to, "+
				"or take one with rota operator snapshot save", cv.n.cfg.Node)
	}
	l := cv.n.terms.leading()
	if l == nil {
		return rota.StoredBackup{}, fault.NotLeader()
	}
	return bk.Make(ctx, l)
}
