package raftstore

import (
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/raft"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rotasched/rota/cluster/raftstore/wal"
)

// sealedLog is the log in raft.db, where v0.1.0 keeps it: with a checksum appended to each entry. A node keeps it there
// until no binary of that release can return (DataDir.MarkMoving).
type sealedLog struct{ raft.LogStore }

// GetLog reads and checks an entry; a damaged one is a DamagedEntryError.
func (l sealedLog) GetLog(index uint64, entry *raft.Log) error {
	var read raft.Log // a new value: the decoder would reuse the caller's slices
	if err := l.LogStore.GetLog(index, &read); err != nil {
		return err
	}
	if err := openEntry(index, &read); err != nil {
		return err
	}
	*entry = read
	return nil
}

// StoreLog stores one entry.
func (l sealedLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries in one transaction.
func (l sealedLog) StoreLogs(entries []*raft.Log) error {
	sealed := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		sealed[i] = sealEntry(entry)
	}
	return l.LogStore.StoreLogs(sealed)
}

// readEntry reads and checks one entry; a damaged one is a DamagedEntryError.
func readEntry(inner raft.LogStore, index uint64, entry *raft.Log) (err error) {
	defer func() {
		if what := recover(); what != nil { // bbolt panics on damaged pages
			err = &DamagedEntryError{index, fmt.Sprint(what)}
		}
	}()
	err = inner.GetLog(index, entry)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) ||
		errors.Is(err, os.ErrClosed) {
		return err
	}
	if _, ok := errors.AsType[*DamagedEntryError](err); ok {
		return err
	}
	if in, ok := errors.AsType[*wal.DamageError](err); ok {
		return &DamagedEntryError{index, in.Reason}
	}
	return &DamagedEntryError{index, err.Error()}
}
