package raftstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

const (
	// spacing is the number of keys per index in the spaced part of the log.
	spacing = 8
	// spacers is the number of empty entries after a large one: with them its leaf has more than the four keys up to
	// which bbolt does not split.
	spacers = 4
	// largeFrom is the size in bytes from which an entry's data is large: half a page of bbolt.
	largeFrom = 2 << 10
)

// keySpaced is the key of the index from which the log is spaced.
var keySpaced = []byte("rota.spaced.1")

// boltLog is the log in raft.db. bbolt does not split a leaf of four keys or fewer, and rewrites a leaf with each key
// added to it, so an entry larger than a page would be written four times (ADR 17). Therefore, from some index on, an
// index has eight keys, and empty entries follow a large one, where bbolt splits. Before that index, and in a log that
// was never spaced, the key of an entry is its index.
type boltLog struct {
	*raftboltdb.BoltStore
	// from is the first spaced index.
	from atomic.Uint64
}

// newBoltLog reads from where the log in an open file is spaced.
func newBoltLog(bolt *raftboltdb.BoltStore) (*boltLog, error) {
	l := &boltLog{BoltStore: bolt}
	l.from.Store(math.MaxUint64)
	sealed, err := bolt.Get(keySpaced)
	if isNotFound(err) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	from, err := spacedFrom(sealed)
	l.from.Store(from)
	return l, err
}

// spacedFrom decodes the value of keySpaced; nil means that the log is not spaced.
func spacedFrom(sealed []byte) (uint64, error) {
	if sealed == nil {
		return math.MaxUint64, nil
	}
	value, err := openValue(keySpaced, sealed)
	if err == nil && len(value) != 8 {
		err = &DamagedValueError{string(keySpaced), fmt.Sprintf("it has %d bytes instead of 8", len(value))}
	}
	if err != nil {
		return math.MaxUint64, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// keyOf returns an entry's key in a log that is spaced from an index on; indexOf is its inverse.
func keyOf(index, from uint64) uint64 {
	if index < from {
		return index
	}
	return from + (index-from)*spacing
}

func indexOf(key, from uint64) (index uint64, spacer bool) {
	if key < from {
		return key, false
	}
	return from + (key-from)/spacing, (key-from)%spacing != 0
}

// space makes the log spaced after its last entry, if it is not spaced yet. No write may be in progress.
func (l *boltLog) space() error {
	if l.from.Load() != math.MaxUint64 {
		return nil
	}
	last, err := l.BoltStore.LastIndex()
	if err != nil {
		return err
	}
	key := bytes.Clone(keySpaced)
	if err := l.Set(key, sealValue(key, binary.BigEndian.AppendUint64(nil, last+1))); err != nil {
		return err
	}
	l.from.Store(last + 1)
	return nil
}

// FirstIndex returns the index of the oldest entry, 0 for an empty log.
func (l *boltLog) FirstIndex() (uint64, error) { return l.bound(l.BoltStore.FirstIndex) }

// LastIndex returns the index of the newest entry, 0 for an empty log.
func (l *boltLog) LastIndex() (uint64, error) { return l.bound(l.BoltStore.LastIndex) }

func (l *boltLog) bound(key func() (uint64, error)) (uint64, error) {
	at, err := key()
	index, _ := indexOf(at, l.from.Load()) // after the key: a spaced key was written once from was known
	return index, err
}

// GetLog reads an entry.
func (l *boltLog) GetLog(index uint64, entry *raft.Log) error {
	key := keyOf(index, l.from.Load())
	if err := l.BoltStore.GetLog(key, entry); err != nil {
		return err
	}
	if entry.Index == key { // otherwise it is damaged, and is returned as it is
		entry.Index = index
	}
	return nil
}

// StoreLog stores one entry.
func (l *boltLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs stores entries in one transaction.
func (l *boltLog) StoreLogs(entries []*raft.Log) error {
	from := l.from.Load()
	placed := make([]*raft.Log, 0, len(entries)*(1+spacers))
	for _, entry := range entries {
		if entry.Index < from {
			placed = append(placed, entry)
			continue
		}
		at := *entry
		at.Index = keyOf(entry.Index, from)
		placed = append(placed, &at)
		if len(entry.Data) < largeFrom {
			continue
		}
		for i := range uint64(spacers) {
			placed = append(placed, &raft.Log{Index: at.Index + 1 + i})
		}
	}
	return l.BoltStore.StoreLogs(placed)
}

// DeleteRange deletes the entries from low to high, both included, with the spacers that follow them.
func (l *boltLog) DeleteRange(low, high uint64) error {
	from := l.from.Load()
	last := keyOf(high, from)
	if high >= from {
		last += spacing - 1
	}
	return l.BoltStore.DeleteRange(keyOf(low, from), last)
}
