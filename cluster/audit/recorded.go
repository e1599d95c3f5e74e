package audit

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Recorded is a stored log, and the oldest state that it continues from. It is read only.
type Recorded struct {
	base  *fsm.Machine
	last  rota.Index
	log   Log
	close func() error
}

// OpenData opens the log in a stopped node's data directory.
func OpenData(data string) (*Recorded, error) {
	kept, err := raftstore.OpenStopped(data)
	if err != nil {
		return nil, err
	}
	if kept.Last == 0 {
		_ = kept.Close()
		return nil, rota.Refusef(rota.KindNotFound, "data", "%s holds no log: is it a node's data directory?", data)
	}
	m, _, err := auditBase(data, kept.First, kept.Last)
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return &Recorded{base: m, last: rota.Index(kept.Last), log: kept, close: kept.Close}, nil
}

// OpenBackup opens the log in a backup.
func OpenBackup(open snapshot.Opener) (*Recorded, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &backupLog{}
	_, info, err := snapshot.Read(f, func(rota.SnapshotInfo) (snapshot.Sink[struct{}], error) {
		return snapshot.Sections[struct{}](snapshot.Discard{}, l.take), nil
	})
	if err != nil {
		return nil, err
	}
	m, err := l.base()
	if err != nil {
		return nil, err
	}
	return &Recorded{base: m, last: info.Index, log: l, close: func() error { return nil }}, nil
}

// Base returns the state before the first entry. The caller owns it and may advance it: there is no second one.
func (r *Recorded) Base() *fsm.Machine { return r.base }

// Last returns the index of the last entry.
func (r *Recorded) Last() rota.Index { return r.last }

// Entry reads an entry and its term in the log; data is nil if it is not a state machine command.
func (r *Recorded) Entry(index rota.Index) (term uint64, data []byte, err error) {
	err = walkLog(context.Background(), r.log, uint64(index), uint64(index), func(l *raft.Log) error {
		term, data = l.Term, l.Data
		return nil
	})
	return term, data, err
}

// Close closes the log.
func (r *Recorded) Close() error { return r.close() }
