package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore/wal"
)

const (
	// logDir is the directory of the log's files in the data directory.
	logDir = "log"
	// movedFile is raft.db without its log, while the log moves.
	movedFile = "raft.db.moved"
	// markEvery is how often a busy log stores its mark. A change of the last batch within this time looks like a torn
	// write.
	markEvery = 100 * time.Millisecond
	// movedAtOnce is about how many bytes of entries a move writes in one batch.
	movedAtOnce = 4 << 20
	// headFormat is the first byte of the stored head.
	headFormat = 1
	headBytes  = 37
)

// keyLog is the key of the head of the log in raft.db. Without it, raft.db holds the log itself.
var keyLog = []byte("rota.log.1")

// keySpaced was written by builds between v0.1.0 and the move of the log to files of its own.
var keySpaced = []byte("rota.spaced.1")

func encodeHead(h wal.Head) []byte {
	b := binary.BigEndian.AppendUint64([]byte{headFormat}, h.File)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Offset))
	b = binary.BigEndian.AppendUint64(b, h.Mark.Index)
	b = binary.BigEndian.AppendUint64(b, h.Mark.Term)
	return binary.BigEndian.AppendUint32(b, h.Mark.Sum)
}

func decodeHead(b []byte) (h wal.Head, err error) {
	if len(b) != headBytes || b[0] != headFormat {
		return h, &DamagedValueError{string(keyLog), fmt.Sprintf("it has %d bytes, want %d and format %d", len(b),
			headBytes, headFormat)}
	}
	h.File, h.Offset = binary.BigEndian.Uint64(b[1:]), int64(binary.BigEndian.Uint64(b[9:]))
	h.Mark = wal.Mark{Index: binary.BigEndian.Uint64(b[17:]), Term: binary.BigEndian.Uint64(b[25:]),
		Sum: binary.BigEndian.Uint32(b[33:])}
	return h, nil
}

// readHead reads the head of the log; ok is false if raft.db holds the log itself.
func readHead(bolt *raftboltdb.BoltStore) (h wal.Head, ok bool, err error) {
	sealed, err := bolt.Get(keyLog)
	if isNotFound(err) {
		return h, false, nil
	}
	if err == nil {
		sealed, err = openValue(keyLog, sealed)
	}
	if err == nil {
		h, err = decodeHead(sealed)
	}
	return h, err == nil, err
}

func saveHead(bolt *raftboltdb.BoltStore, h wal.Head) error {
	return bolt.Set(bytes.Clone(keyLog), sealValue(keyLog, encodeHead(h)))
}

// openSegments opens the log in its files; raft.db holds its head.
func openSegments(dir string, bolt *raftboltdb.BoltStore, head wal.Head, noSync bool,
	failed func() error) (*wal.Log, error) {
	log, err := wal.Open(filepath.Join(dir, logDir), head, wal.Options{NoSync: noSync || planted.noFsync(),
		Unverified: planted.crcOff(),
		SaveHead: func(h wal.Head) error {
			if err := failed(); err != nil {
				return err
			}
			return saveHead(bolt, h)
		}})
	return log, describeFault(dir, err)
}

// describeFault returns the error that a start prints for a log that cannot be opened or moved.
func describeFault(dir string, err error) error {
	if in, ok := errors.AsType[*wal.DamageError](err); ok {
		return damaged(in.Path, in.Reason)
	}
	if noRoom(err) {
		return diskFull(dir, err)
	}
	return err
}

// unreleased rejects a directory of a build that no release has.
func unreleased(path string) error {
	return rota.Refusef(rota.KindConflict, "data",
		"%s was written by an unreleased build of rota, with a spaced log. "+
			"Start with an empty --data and a NEW node id, or run that build", path)
}

// moveLog moves the log of a directory from raft.db into files of its own. A process that dies in between leaves raft.db
// as it was, or the moved log in effect:
//
//  1. write the entries to the new files, and sync these
//  2. write raft.db without its log, and with the log's head, under another name, and sync it
//  3. rename it to raft.db
//
// A move that fails removes what it wrote: the disk may be full.
func moveLog(dir string, noSync bool) (err error) {
	path, moved := filepath.Join(dir, raftFile), filepath.Join(dir, movedFile)
	undo := func() error { return errors.Join(os.RemoveAll(filepath.Join(dir, logDir)), os.RemoveAll(moved)) }
	if err := undo(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	span, err := newestSpan(path)
	if err != nil {
		return err
	}
	old, err := openToRead(path)
	if err != nil {
		return err
	}
	defer old.Close()
	head, err := copyEntries(dir, sealedLog{old}, span, noSync)
	if err != nil {
		return err
	}
	if err := copyValues(path, moved, head, noSync); err != nil {
		return err
	}
	if err := old.Close(); err != nil {
		return err
	}
	if err := os.Rename(moved, path); err != nil {
		return err
	}
	undo = func() error { return nil } // the log has moved
	return syncDir(dir)
}

// newestSpan returns the newest entries without a gap: an installed snapshot covers the entries before them.
func newestSpan(path string) (span logSpan, err error) {
	found := &logSummary{}
	if _, err = surveyKeys(path, found); err == nil && len(found.spans) > 0 {
		span = found.spans[len(found.spans)-1]
	}
	return span, err
}

// copyEntries writes entries to files of their own, and returns the head of that log.
func copyEntries(dir string, from raft.LogStore, span logSpan, noSync bool) (head wal.Head, err error) {
	to, err := wal.Open(filepath.Join(dir, logDir), head, wal.Options{NoSync: noSync,
		SaveHead: func(h wal.Head) error { head = h; return nil }})
	if err != nil {
		return head, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	var batch []*raft.Log
	size := 0
	for index := span.first; index > 0 && index <= span.last; index++ {
		entry := new(raft.Log)
		if err := readEntry(from, index, entry); err != nil {
			return head, err
		}
		batch, size = append(batch, entry), size+len(entry.Data)
		if size < movedAtOnce && index < span.last {
			continue
		}
		if err := to.StoreLogs(batch); err != nil {
			return head, err
		}
		batch, size = nil, 0
	}
	return head, to.SaveMark()
}

// copyValues writes a raft.db that holds the values of another, the head of the log, and no entries.
func copyValues(from, to string, head wal.Head, noSync bool) error {
	values := make(map[string][]byte)
	db, err := bbolt.Open(from, 0o600, &bbolt.Options{ReadOnly: true, Timeout: raftFileLock})
	if err != nil {
		return openRefusal(from, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		conf := tx.Bucket([]byte("conf"))
		if conf == nil {
			return nil
		}
		return conf.ForEach(func(key, value []byte) error { values[string(key)] = bytes.Clone(value); return nil })
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	bolt, err := openBolt(to, noSync)
	if err != nil {
		return err
	}
	for key, value := range values {
		err = errors.Join(err, bolt.Set([]byte(key), value))
	}
	return errors.Join(err, saveHead(bolt, head), bolt.Close())
}

// marker stores the mark of a busy log every markEvery, and once more when writing stops.
type marker struct {
	log    *wal.Log // nil for a log in raft.db, which has no mark
	writer *writer
	dirty  chan struct{}
	stop   chan struct{}
	ended  chan struct{}
}

func newMarker(log *wal.Log, writer *writer) *marker {
	m := &marker{log: log, writer: writer, dirty: make(chan struct{}, 1), stop: make(chan struct{}),
		ended: make(chan struct{})}
	go m.run()
	return m
}

// touch notes that the log has grown.
func (m *marker) touch() {
	if m == nil {
		return
	}
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

func (m *marker) run() {
	defer close(m.ended)
	for {
		select {
		case <-m.stop:
			return
		case <-m.dirty:
		}
		if m.log != nil && m.writer.failure() == nil {
			if err := runGuarded(m.log.SaveMark); err != nil {
				m.writer.die(m.writer.fail(m.writer.describe(err)))
				return
			}
		}
		select {
		case <-m.stop:
			return
		case <-time.After(markEvery):
		}
	}
}

// close ends the goroutine, and stores the mark a last time; it reports whether both ended in time.
func (m *marker) close() (ended bool, err error) {
	close(m.stop)
	wait := time.NewTimer(m.writer.opts.StallAfter)
	defer wait.Stop()
	select {
	case <-m.ended:
	case <-wait.C:
		return false, nil
	}
	if m.log != nil && m.writer.failure() == nil {
		err = m.writer.do("store the mark", m.log.SaveMark) // which does not wait forever for a disk that hangs
	}
	return true, err
}
