package raftstore

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota/internal/failpoint"
)

// logStore writes through the one writer, and ends the process when it reads a damaged entry.
type logStore struct {
	inner raft.LogStore
	// where is the path of the log, for errors.
	where  string
	writer *writer
	marker *marker
	// keepFrom returns the lowest index that must remain when the old end of the log is cut; nil or 0 leaves the choice
	// to raft.
	keepFrom func() uint64
	// cutting is Options.Cutting, nil for none.
	cutting func(low, high uint64) error
}

// FirstIndex returns the index of the oldest entry, 0 for an empty log.
func (s *logStore) FirstIndex() (uint64, error) {
	waits, _ := s.writer.ahead.bounds() // read first: it may be written in between
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

// IsMonotonic returns the answer of the underlying store: raft uses it to decide how to continue after a snapshot.
func (s *logStore) IsMonotonic() bool {
	inner, ok := s.inner.(raft.MonotonicLogStore)
	return ok && inner.IsMonotonic()
}

// GetLog reads an entry. A damaged entry ends the process: raft would either continue without it or panic, and the
// state in memory is still correct.
func (s *logStore) GetLog(index uint64, entry *raft.Log) error {
	if s.writer.ahead.get(index, entry) {
		return nil
	}
	err := readEntry(s.inner, index, entry)
	if _, ok := errors.AsType[*DamagedEntryError](err); ok {
		s.writer.die(damaged(s.where, err.Error()))
	}
	return err
}

// StoreLog stores one entry.
func (s *logStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries in one write; a leader's own commands are written ahead (aheadWriter). Entries that
// raft cannot process are rejected before they reach the disk, where raft would find them at each start: hashicorp/raft
// panics on a configuration that does not decode and on an unknown type.
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

// writeAhead stores queued entries.
func (s *logStore) writeAhead(entries []*raft.Log) error { return s.store(s.writer.doNow, entries) }

func (s *logStore) store(do func(what string, run func() error) error, entries []*raft.Log) error {
	failpoint.Pass("log-before-store")
	err := do("append to the log", func() error { return s.inner.StoreLogs(entries) })
	failpoint.Pass("log-after-store")
	if err == nil {
		s.marker.touch()
	}
	return err
}

// DeleteRange deletes the entries from low to high, both included. When raft cuts the old end after a snapshot, the log
// from the previous snapshot on remains, whatever raft's own number of trailing entries is: if the newest snapshot is
// damaged, the previous one is used (SPEC §13.5) and needs that part of the log.
//
// When raft cuts the new end, another leader's entries replace it: Options.Cutting is called first, and an error from
// it ends the process.
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

// digestible rejects entries that would make raft panic.
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
