package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rotasched/rota/internal/failpoint"
)

// logStore puts a checksum into each entry that it stores, checks it on
// reading, and writes through the one writer.
type logStore struct {
	inner  raft.LogStore
	writer *writer
	// keepFrom is the lowest index that cutting the log's old end must leave; nil
	// or 0 leaves the choice to raft.
	keepFrom func() uint64
	// cutting is Options.Cutting, nil for none.
	cutting func(low, high uint64) error
}

// FirstIndex returns the index of the oldest entry, 0 for an empty log.
func (s *logStore) FirstIndex() (uint64, error) {
	waits, _ := s.writer.ahead.bounds() // first: it may be written meanwhile
	first, err := s.inner.FirstIndex()
	if err == nil && first == 0 {
		first = waits
	}
	return first, err
}

// LastIndex returns the index of the newest entry, 0 for an empty log.
func (s *logStore) LastIndex() (uint64, error) {
	_, waits := s.writer.ahead.bounds()
	last, err := s.inner.LastIndex()
	return max(last, waits), err
}

// IsMonotonic passes on what the store beneath says of itself: raft changes how
// it goes on after a snapshot by it.
func (s *logStore) IsMonotonic() bool {
	inner, ok := s.inner.(raft.MonotonicLogStore)
	return ok && inner.IsMonotonic()
}

// GetLog reads an entry. A damaged one ends the process: raft would either go
// on without it or panic, and what is in memory is still right.
func (s *logStore) GetLog(index uint64, entry *raft.Log) error {
	if s.writer.ahead.get(index, entry) {
		return nil
	}
	err := readEntry(s.inner, index, entry)
	if _, ok := errors.AsType[*DamagedEntryError](err); ok {
		s.writer.die(damaged(filepath.Join(s.writer.dir, raftFile), err.Error()))
	}
	return err
}

// readEntry reads and checks one entry; what is not whole is a DamagedEntryError.
func readEntry(inner raft.LogStore, index uint64, entry *raft.Log) (err error) {
	defer func() {
		if what := recover(); what != nil { // bbolt trips over damaged pages
			err = &DamagedEntryError{index, fmt.Sprint(what)}
		}
	}()
	var read raft.Log // fresh: the decoder would reuse the caller's slices
	err = inner.GetLog(index, &read)
	if errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return err
	}
	if err != nil {
		return &DamagedEntryError{index, err.Error()}
	}
	if err := openEntry(index, &read); err != nil {
		return err
	}
	*entry = read
	return nil
}

// StoreLog stores one entry.
func (s *logStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries in one transaction; a leader's own commands it hands over
// (aheadWriter). Entries that raft could not
// digest are refused before they reach the disk, where they would be met again
// at each start: hashicorp/raft panics on a configuration that does not decode
// and on a type that it does not know.
func (s *logStore) StoreLogs(entries []*raft.Log) error {
	for _, entry := range entries {
		if err := digestible(entry); err != nil {
			return err
		}
	}
	if s.writer.ahead.takes(entries) {
		return s.writer.ahead.put(entries)
	}
	return s.store(s.writer.do, entries)
}

// writeAhead stores what was handed over.
func (s *logStore) writeAhead(entries []*raft.Log) error { return s.store(s.writer.doNow, entries) }

func (s *logStore) store(do func(what string, run func() error) error, entries []*raft.Log) error {
	sealed := make([]*raft.Log, len(entries))
	for i, entry := range entries {
		sealed[i] = sealEntry(entry)
	}
	failpoint.Pass("log-before-store")
	err := do("append to the log", func() error { return s.inner.StoreLogs(sealed) })
	failpoint.Pass("log-after-store")
	return err
}

// DeleteRange deletes the entries from low to high, both included. Where raft
// cuts the old end off after a snapshot, the log from the snapshot before on
// stays, whatever raft's own count of trailing entries says: should the newest
// snapshot be damaged, the one before it is used (SPEC §13.5), and needs them.
//
// Where raft cuts the new end off, another leader's entries take its place: Options.Cutting is
// called first, and an error of it ends the process.
func (s *logStore) DeleteRange(low, high uint64) error {
	last, err := s.LastIndex()
	if first, broken := s.FirstIndex(); err == nil && broken == nil && high >= last && low > first && s.cutting != nil {
		if err := s.cutting(low, high); err != nil {
			s.writer.die(err)
			return err
		}
	}
	if err == nil && high < last && s.keepFrom != nil {
		if keep := s.keepFrom(); keep > 0 && high >= keep {
			high = keep - 1
		}
		if high < low {
			return nil
		}
	}
	return s.writer.do("cut the log", func() error { return s.inner.DeleteRange(low, high) })
}

// digestible refuses what would make raft panic.
func digestible(entry *raft.Log) (err error) {
	if entry.Type > raft.LogConfiguration {
		return fmt.Errorf("entry %d has unknown type %d", entry.Index, entry.Type)
	}
	if entry.Type != raft.LogConfiguration {
		return nil
	}
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("entry %d holds no configuration: %v", entry.Index, what)
		}
	}()
	raft.DecodeConfiguration(entry.Data)
	return nil
}
