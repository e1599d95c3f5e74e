package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Report describes the disk of a stopped node, including its last entries, which may not have been committed.
type Report struct {
	Node        rota.NodeID    `json:"node"`
	Cluster     string         `json:"cluster"`
	ClusterID   rota.ClusterID `json:"cluster_id"`
	Incarnation uint64         `json:"incarnation"`
	// Term and Index belong to the last entry: of two disks, the one with the greater values, term first, holds more
	// acknowledged entries.
	Term    uint64      `json:"last_term"`
	Index   uint64      `json:"last_index"`
	Date    rota.Date   `json:"date_ms"`
	Digest  rota.Digest `json:"digest"`
	Members []Member    `json:"members"`
}

// Member is a server of the last configuration.
type Member struct {
	ID      rota.NodeID `json:"id"`
	Address string      `json:"address"`
	Voter   bool        `json:"voter"`
}

// Inspect reports what the data directory of a stopped node holds.
func Inspect(ctx context.Context, data string) (Report, error) {
	dir, err := raftstore.OpenRecovery(data)
	if err != nil {
		return Report{}, err
	}
	defer dir.Close()
	s, err := survey(ctx, dir, data)
	return s.report, err
}

// survivor is the disk of a stopped node, and the state that results from it.
type survivor struct {
	report Report
	m      *fsm.Machine
}

// survey applies the newest snapshot and the whole log. It rejects a disk that is damaged, or whose state was wrong and
// was not rebuilt.
func survey(ctx context.Context, dir *raftstore.DataDir, data string) (s survivor, err error) {
	switch {
	case dir.Recovering():
		return s, rota.Refusef(rota.KindConflict, "data",
			"the recovery of %s was interrupted: run it again with --yes-lose-quorum", data)
	case dir.Rebuild().Open:
		return s, rota.Refusef(rota.KindConflict, "data",
			"the state in %s was found wrong and its rebuild did not end: recover "+
				"from another node's disk, or restore a backup", data)
	}
	if s, err = stateOf(ctx, data); err != nil {
		return s, err
	}
	head := s.m.Head()
	s.report.Node, s.report.Cluster = dir.Node()
	s.report.ClusterID, s.report.Incarnation, s.report.Date, s.report.Digest = head.ClusterID, head.Incarnation, head.Date, head.Digest
	if head.ClusterID == "" {
		return s, rota.Refusef(rota.KindConflict, "data",
			"the cluster of %s never had a leader: found a new one on empty data "+
				"directories", data)
	}
	return s, nil
}

// stateOf applies the newest snapshot and the whole log of a data directory. It writes nothing.
func stateOf(ctx context.Context, data string) (s survivor, err error) {
	log, err := raftstore.OpenStopped(data)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	kept, err := raftstore.OpenStoppedState(data)
	if err != nil {
		return s, err
	}
	switch {
	case log.Last == 0 && kept.File == "":
		return s, rota.Refusef(rota.KindNotFound, "data",
			"%s holds no log and no snapshot: there is nothing to recover", data)
	case log.Last > kept.Index && log.First > kept.Index+1:
		return s, rota.Refusef(rota.KindConflict, "data",
			"entries %d to %d are missing in %s: recover from another node's disk, or "+
				"restore a backup", kept.Index+1, log.First-1, data)
	}
	s.m = fsm.New()
	if kept.File != "" {
		if s.m, err = loadState(snapshot.At(kept.File)); err != nil {
			return s, err
		}
	}
	s.report = Report{Term: kept.Term, Index: kept.Index, Members: members(kept.Members)}
	err = s.replay(ctx, log)
	return s, err
}

// replay applies every entry after the state.
func (s *survivor) replay(ctx context.Context, log *raftstore.StoppedLog) error {
	for i := max(s.report.Index+1, log.First); i <= log.Last && log.Last > 0; i++ {
		if ctx.Err() != nil {
			return fmt.Errorf("called off at entry %d of %d: %w", i, log.Last, context.Cause(ctx))
		}
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return fmt.Errorf("read entry %d: %w", i, err)
		}
		switch l.Type {
		case raft.LogCommand:
			if _, err := s.m.Apply(rota.Index(i), l.Term, l.Data); err != nil {
				return err
			}
		case raft.LogConfiguration:
			s.report.Members = members(raft.DecodeConfiguration(l.Data))
		}
		s.report.Term, s.report.Index = l.Term, i
	}
	return nil
}

func members(c raft.Configuration) []Member {
	list := []Member{}
	for _, s := range c.Servers {
		list = append(list, Member{ID: rota.NodeID(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// compare rejects a disk if another one holds more or differs from it.
func (r *Report) compare(others []Report) error {
	for _, o := range others {
		at := cmp.Or(cmp.Compare(o.Term, r.Term), cmp.Compare(o.Index, r.Index))
		switch {
		case o.ClusterID != r.ClusterID:
			return rota.Refusef(rota.KindInvalid, "others",
				"the report of node %s is of cluster %s, this disk is of %s", o.Node, o.ClusterID, r.ClusterID)
		case at > 0:
			return rota.Refusef(rota.KindConflict, "others",
				"the disk of node %s ends at term %d, index %d, this one of node %s at term %d, "+
					"index %d: recover from that disk", o.Node, o.Term, o.Index, r.Node, r.Term, r.Index)
		case at == 0 && o.Digest != r.Digest:
			return rota.Refusef(rota.KindConflict, "others",
				"the disks of nodes %s and %s end at the same entry with other digests: one of "+
					"the states is wrong. Recover from a third disk, or restore a backup", o.Node, r.Node)
		}
	}
	return nil
}

// Options configures Recover.
type Options struct {
	// Data is the data directory of the surviving node.
	Data string
	// Others are the reports of the other remaining disks.
	Others []Report
	Log    *slog.Logger
}

// Recovered is the result of a recovery.
type Recovered struct {
	// Old describes the disk before the recovery.
	Old Report `json:"old"`
	// ClusterID and Incarnation belong to the new cluster.
	ClusterID   rota.ClusterID `json:"cluster_id"`
	Incarnation uint64         `json:"incarnation"`
	// Aside is the directory with the old files.
	Aside string `json:"aside"`
}
