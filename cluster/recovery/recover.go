package recovery

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

const (
	// leasePause is how long the jobs of void leases wait, in milliseconds: after that time a disconnected worker no
	// longer trusts its lease (SPEC §3.10).
	leasePause = 60_000
	// dialFor is how long the other members are dialled, dialEvery the pause between two attempts, maxDial the time
	// limit of one.
	dialFor   = 10 * time.Second
	dialEvery = 500 * time.Millisecond
	maxDial   = 2 * time.Second
)

// Recover turns the disk of one node into a new cluster when the quorum is lost permanently (SECURITY §5.2). All of its
// log counts as committed. A new cluster id, a new identity and a greater incarnation keep the old members and their
// workers out, and the ids of all other nodes are never used again. It fails while another member answers. An
// interrupted recovery is continued.
func Recover(ctx context.Context, o Options) (done Recovered, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := raftstore.OpenRecovery(o.Data)
	if err != nil {
		return done, err
	}
	defer dir.Close()
	if !dir.Recovering() {
		if done.Old, err = begin(ctx, o, dir); err != nil {
			return done, err
		}
	}
	if done.Aside, err = dir.FinishRecovery(); err != nil {
		return done, err
	}
	kept, err := raftstore.OpenStoppedState(o.Data)
	if err != nil {
		return done, err
	}
	info, err := snapshot.InspectFile(kept.File)
	done.ClusterID, done.Incarnation = info.ClusterID, info.Incarnation
	return done, err
}

// begin checks the disk, builds the new state next to the old one, and commits to the recovery.
func begin(ctx context.Context, o Options, dir *raftstore.DataDir) (Report, error) {
	s, err := survey(ctx, dir, o.Data)
	if err != nil {
		return s.report, err
	}
	if err := s.report.compare(o.Others); err != nil {
		return s.report, err
	}
	at := slices.IndexFunc(s.report.Members, func(m Member) bool { return m.ID == s.report.Node })
	if at < 0 {
		return s.report, rota.Refusef(rota.KindConflict, "data",
			"node %s is not a member of its last configuration: recover from the disk "+
				"of one that is", s.report.Node)
	}
	if err := anyAnswers(ctx, s.report.others()); err != nil {
		return s.report, err
	}
	now := time.Now()
	to, err := dir.New()
	if err != nil {
		return s.report, err
	}
	as := fsm.Rebirth{Cluster: newCluster(), Incarnation: s.report.next(now), Pause: leasePause,
		Survivor: s.report.Node}
	for _, m := range s.report.others() {
		as.Lost = append(as.Lost, m.ID)
	}
	ended := s.m.Freeze().Ended()
	if err := s.m.Reincarnate(as); err != nil {
		return s.report, err
	}
	if err := writeHistory(to, s.m, func(take func(kind byte, record []byte) error) error {
		return oldHistory(o.Data, ended, take)
	}); err != nil {
		return s.report, err
	}
	if _, err := writeFirst(first{Data: to, Node: s.report.Node, Raft: s.report.Members[at].Address,
		Index: s.report.Index,
		Log:   o.Log}, s.m); err != nil {
		return s.report, err
	}
	_, err = dir.Recover(as.Cluster, now.UnixNano())
	return s.report, err
}

// others returns the members other than the node itself.
func (r *Report) others() []Member {
	return slices.DeleteFunc(slices.Clone(r.Members), func(m Member) bool { return m.ID == r.Node })
}

// next returns the new incarnation: at least the Unix second, greater than the old one, and never the same for two
// survivors of one configuration, even if both recover at once.
func (r *Report) next(now time.Time) uint64 {
	rank := slices.IndexFunc(r.Members, func(m Member) bool { return m.ID == r.Node })
	own, all := uint64(rank), uint64(len(r.Members))
	least := max(r.Incarnation+1, uint64(now.Unix()))
	return least + (own+all-least%all)%all
}

// oldHistory passes on the ended jobs in the node's archive.
func oldHistory(data string, ended uint64, take func(kind byte, record []byte) error) (err error) {
	path := filepath.Join(data, archive.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	db, err := archive.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	old, err := archive.OpenJobs(db)
	if err != nil {
		return err
	}
	return old.Section(ended, take)
}

// anyAnswers dials all members for a while and returns an error if one answers: the quorum may come back then.
func anyAnswers(ctx context.Context, members []Member) error {
	until, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	found := make(chan Member, len(members))
	for _, m := range members {
		go func() {
			for until.Err() == nil {
				if answers(until, m.Address) {
					found <- m
					return
				}
				select {
				case <-time.After(dialEvery):
				case <-until.Done():
				}
			}
		}()
	}
	if len(members) == 0 {
		return nil
	}
	select {
	case m := <-found:
		return rota.Refusef(rota.KindConflict, "member",
			"node %s answers at %s: the quorum may not be lost. Start this node again next to it, or "+
				"stop it for good first", m.ID, m.Address)
	case <-until.Done():
		return ctx.Err()
	}
}

func answers(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: maxDial}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
