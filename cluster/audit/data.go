package audit

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Data replays the log in a stopped node's data directory and recomputes every round (SPEC §2.4). It writes nothing. A
// round that differs is in the report; an error means that the replay itself failed.
func Data(ctx context.Context, data string, log *slog.Logger) (rota.AuditReport, error) {
	kept, err := raftstore.OpenStopped(data)
	if err != nil {
		return rota.AuditReport{}, err
	}
	defer kept.Close()
	if kept.Last == 0 {
		return rota.AuditReport{}, rota.Refusef(rota.KindNotFound, "data",
			"%s holds no log: is it a node's data directory?", data)
	}
	m, known, err := auditBase(data, kept.First, kept.Last)
	if err != nil {
		return rota.AuditReport{}, err
	}
	log.Info("replaying", "from_state", uint64(m.Head().Index), "to", kept.Last)
	return stretch(ctx, m, kept, kept.Last, known)
}

// auditBase loads the oldest state that the log continues from, and returns the digests recorded in the snapshots after
// it.
func auditBase(data string, first, last uint64) (*fsm.Machine, map[rota.Index]rota.Digest, error) {
	var files []string
	older, err := list(filepath.Join(data, Dir))
	if err != nil {
		return nil, nil, err
	}
	for _, s := range older {
		files = append(files, filepath.Join(data, Dir, s.name()))
	}
	raftOwn, err := raftstore.StateFiles(data)
	if err != nil {
		return nil, nil, err
	}
	files = append(files, raftOwn...)

	known := make(map[rota.Index]rota.Digest)
	best, bestIndex := "", uint64(0)
	var refused error
	for _, file := range files {
		info, err := snapshot.InspectFile(file)
		if err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		known[info.Index] = info.Digest
		follows := uint64(info.Index)+1 >= first && uint64(info.Index) <= last
		if follows && (best == "" || uint64(info.Index) < bestIndex) {
			best, bestIndex = file, uint64(info.Index)
		}
	}
	switch {
	case first <= 1:
		return fsm.New(), known, nil
	case best == "":
		return nil, nil, &rota.Error{Kind: rota.KindOutOfRange, Subject: "data", Cause: refused,
			Text: "no whole snapshot is kept that the log follows on: nothing can be replayed"}
	}
	m, err := loadFile(best)
	return m, known, err
}
