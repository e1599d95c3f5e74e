package cluster

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"go.etcd.io/bbolt"
)

// AuditData replays what a stopped node's data directory keeps and recomputes
// every round (SPEC §2.4). It writes nothing. A round that differs is told in the
// report; an error says that the replay itself could not be done.
func AuditData(ctx context.Context, data string, log *slog.Logger) (rota.AuditReport, error) {
	path := filepath.Join(data, raftFile)
	found, err := surveyLog(path)
	if err != nil {
		return rota.AuditReport{}, err
	}
	if len(found.spans) == 0 {
		return rota.AuditReport{}, rota.Refusef(rota.NotFound, "data", "%s holds no log: is it a node's data directory?", data)
	}
	span := found.spans[len(found.spans)-1]
	m, known, err := auditBase(data, span)
	if err != nil {
		return rota.AuditReport{}, err
	}
	log.Info("replaying", "from_state", uint64(m.Head().Index), "to", span.last)
	store, err := raftboltdb.New(raftboltdb.Options{Path: path,
		BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: raftFileLock}})
	if err != nil {
		return rota.AuditReport{}, openRefusal(path, err)
	}
	defer store.Close()
	return auditStretch(ctx, m, sealedLog{store}, span.last, known)
}

// sealedLog reads entries as they were sealed, checking each.
type sealedLog struct{ inner raft.LogStore }

// GetLog reads and checks one entry.
func (s sealedLog) GetLog(index uint64, entry *raft.Log) error {
	return readEntry(s.inner, index, entry)
}

// auditBase loads the oldest state that the log follows on, and tells the digests
// that the snapshots after it claim.
func auditBase(data string, log logSpan) (*fsm.Machine, map[rota.Index]rota.Digest, error) {
	var files []string
	older, err := listAudit(filepath.Join(data, auditDir))
	if err != nil {
		return nil, nil, err
	}
	for _, s := range older {
		files = append(files, filepath.Join(data, auditDir, s.name()))
	}
	raftOwn, err := filepath.Glob(filepath.Join(data, snapshotsDir, "*", snapshotState))
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
		follows := uint64(info.Index)+1 >= log.first && uint64(info.Index) <= log.last
		if follows && (best == "" || uint64(info.Index) < bestIndex) {
			best, bestIndex = file, uint64(info.Index)
		}
	}
	switch {
	case log.first <= 1:
		return fsm.New(), known, nil
	case best == "":
		return nil, nil, &rota.Error{Kind: rota.OutOfRange, Subject: "data", Cause: refused,
			Text: "no whole snapshot is kept that the log follows on: nothing can be replayed"}
	}
	m, err := loadState(best)
	return m, known, err
}
