package raftstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore/wal"
)

// raftFile is the file in the data directory that holds the term, the vote and the head of the log.
const raftFile = "raft.db"

const (
	// stallAfter is how long a write may take before the node becomes unfit, exitAfter before the process ends.
	// hashicorp/raft: a hung disk keeps leadership, because heartbeats have their own goroutine.
	stallAfter = 5 * time.Second
	exitAfter  = 15 * time.Second
	// raftFileLock bounds the wait for another process's lock on the file.
	raftFileLock = 2 * time.Second
	// raftFileMapped is the address space reserved for the file, so that growth seldom has to wait for readers. It uses
	// no memory.
	raftFileMapped = 1 << 30
	// logCacheEntries is the number of latest entries that replication reads from memory.
	logCacheEntries = 512
)

// Options configures Open.
type Options struct {
	// StallAfter is how long a write may take before the node becomes unfit: the caller gets an error and Unfit is
	// called. 0 means 5 s.
	StallAfter time.Duration
	// ExitAfter is how long a write may take before Fatal is called. 0 means 15 s; never less than StallAfter.
	ExitAfter time.Duration
	// Fatal is called once, on the goroutine that met the fault, before the failing call returns. In production it logs
	// and ends the process. If it returns, nothing is ever written again. It must not wait for raft, whose goroutine it
	// may be on. nil means a log line and os.Exit(1).
	Fatal func(error)
	// Unfit is called once, when a write stalls: the node should give up leadership and stop serving. It must not
	// block. May be nil.
	Unfit func(reason string)
	// Logger receives log lines; nil discards them.
	Logger *slog.Logger
	// KeepFrom returns the lowest index that must remain when the old end of the log is cut, 0 for none. May be nil.
	KeepFrom func() uint64
	// Cutting is called before entries low to high, which include the log's last, are deleted: the leader has others in
	// their place. An error ends the process, and nothing is deleted. It may run on raft's main goroutine and must not
	// wait for raft. May be nil.
	Cutting func(low, high uint64) error
	// BeforeWrite is called before each write, by the goroutine that writes. May be nil.
	BeforeWrite func()
	// Plain keeps the log of a directory in raft.db, where v0.1.0 can read it (DataDir.Plain). Otherwise Open moves it
	// into files of its own.
	Plain bool
	// NoSync skips fsync. For tests only: a crash then loses votes.
	NoSync bool
}

// Stores holds raft's term and vote in a bbolt file, and its log in files of its own. Decorators check every read,
// measure how long writes take, and end the process at the first write that fails.
type Stores struct {
	// Log is the log store, with a cache of the latest entries on top.
	Log raft.LogStore
	// Stable holds the term and the vote.
	Stable raft.StableStore

	bolt   *raftboltdb.BoltStore
	log    raft.LogStore // on this disk: files is nil for a log in raft.db
	files  *wal.Log
	marker *marker
	writer *writer
	// path is where raft.db was opened, file identifies the file opened then.
	path   string
	file   os.FileInfo
	once   sync.Once
	closed error
}

// Open opens or creates the stores in dir. An error states the remedy.
func Open(dir string, opts Options) (stores *Stores, err error) {
	opts = opts.withDefaults()
	path := filepath.Join(dir, raftFile)
	bolt, head, err := openValues(dir, opts)
	if err != nil {
		return nil, err
	}
	s := &Stores{bolt: bolt, log: sealedLog{bolt}, path: path, writer: newWriter(dir, opts)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.file, err = os.Stat(path); err != nil {
		return nil, openRefusal(path, err)
	}
	if head != nil {
		if s.files, err = openSegments(dir, bolt, *head, opts.NoSync, s.writer.failure); err != nil {
			return nil, err
		}
		s.log = s.files
	}
	if s.Stable, err = newStableStore(bolt, s.writer); err != nil {
		return nil, err
	}
	s.marker = newMarker(s.files, s.writer)
	log := &logStore{inner: s.log, where: s.where(), writer: s.writer, marker: s.marker, keepFrom: opts.KeepFrom,
		cutting: opts.Cutting}
	if s.Log, err = cachedLog(log); err != nil {
		return nil, err
	}
	go s.writer.ahead.run(log.writeAhead)
	return s, nil
}

// openValues opens raft.db, and returns the head of the log, nil if raft.db holds the log. It moves a log that is to
// move.
func openValues(dir string, opts Options) (*raftboltdb.BoltStore, *wal.Head, error) {
	path := filepath.Join(dir, raftFile)
	for {
		bolt, err := openBolt(path, opts.NoSync)
		if err != nil {
			return nil, nil, err
		}
		head, moved, err := readHead(bolt)
		switch {
		case err != nil:
			err = damaged(path, err.Error())
		case moved && opts.Plain:
			err = damaged(filepath.Join(dir, nodeFile), "it is older than the log, which has moved out of "+raftFile)
		case moved:
			return bolt, &head, nil
		case opts.Plain:
			return bolt, nil, nil
		}
		last, broken := bolt.LastIndex()
		if err = errors.Join(err, broken); err == nil && last == 0 {
			if err = errors.Join(os.RemoveAll(filepath.Join(dir, logDir)), saveHead(bolt, head)); err == nil {
				return bolt, &head, nil
			}
		}
		if err := errors.Join(err, bolt.Close()); err != nil {
			return nil, nil, err
		}
		if err := moveLog(dir, opts.NoSync); err != nil {
			return nil, nil, fmt.Errorf("move the log out of %s: %w", path, describeFault(dir, err))
		}
	}
}

// where returns the path of the log.
func (s *Stores) where() string {
	if s.files == nil {
		return s.path
	}
	return filepath.Join(filepath.Dir(s.path), logDir)
}

// Lost returns an error once a file that is open is no longer in the data directory or another file has replaced it:
// writes to it would be missing at the next start. A directory that cannot be read at the moment is not lost.
func (s *Stores) Lost() error {
	same := func(there os.FileInfo) bool { return os.SameFile(s.file, there) }
	err := lost(s.path, same)
	if s.files != nil && err == nil {
		if path, held := s.files.Newest(); path != "" {
			err = lost(path, held)
		}
	}
	return err
}

func lost(path string, same func(there os.FileInfo) bool) error {
	switch there, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return dataGone(path, "is gone")
	case err == nil && !same(there):
		return dataGone(path, "is another file than this node opened")
	}
	return nil
}

// Failed returns why writing has stopped, nil if it has not.
func (s *Stores) Failed() error { return cmp.Or(s.writer.failure(), s.writer.ahead.failure()) }

// Leads sets how to ask raft whether it is the leader: from then on, a leader's own commands are written while its
// followers write them (aheadWriter).
func (s *Stores) Leads(leads func() bool) { s.writer.ahead.leads.Store(&leads) }

// Await blocks until the log up to index is on this disk; an error means that it never will be and that this node is
// ending.
func (s *Stores) Await(index uint64) error { return s.writer.ahead.await(index) }

// OnDisk lowers an index to that of the last entry on this disk.
func (s *Stores) OnDisk(index uint64) uint64 { return s.writer.ahead.clamp(index) }

// Stored returns the first and the last entry on this disk, 0 for an empty log.
func (s *Stores) Stored() (first, last uint64, err error) {
	if first, err = s.log.FirstIndex(); err == nil {
		last, err = s.log.LastIndex()
	}
	return first, last, err
}

// ReadStored reads an entry from this disk, bypassing the cache and entries not yet written, and checks it. A damaged
// one is a DamagedEntryError.
func (s *Stores) ReadStored(index uint64, entry *raft.Log) error {
	return readEntry(s.log, index, entry)
}

// TermOf returns the term of an entry in the log, 0 if it cannot be read.
func (s *Stores) TermOf(index uint64) uint64 {
	var entry raft.Log
	if s.ReadStored(index, &entry) != nil {
		return 0
	}
	return entry.Term
}

// cutAtOnce is how many entries are cut in one write. Cutting a million at once would block raft's own writes, until
// the disk counts as dead.
const cutAtOnce = 10_000

// CutStored removes the entries from first to last from the beginning of the log.
func (s *Stores) CutStored(first, last uint64) error {
	for low := first; low <= last; low += cutAtOnce {
		high := min(low+cutAtOnce-1, last)
		err := s.writer.do("cut damaged entries off", func() error { return s.log.DeleteRange(low, high) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Close waits for the write in progress and closes the file. After a stall it leaves the file open until the process
// ends: closing would wait for the disk.
func (s *Stores) Close() error {
	s.once.Do(func() {
		marked := true
		if s.marker != nil {
			s.writer.ahead.close()
			marked, s.closed = s.marker.close()
		}
		if idle := s.writer.close(); !idle || !marked {
			s.closed = errors.New("close the log: a write still hangs")
			return
		}
		if s.files != nil {
			s.closed = errors.Join(s.closed, s.files.Close())
		}
		s.closed = errors.Join(s.closed, s.bolt.Close())
	})
	return s.closed
}

func (o Options) withDefaults() Options {
	if o.StallAfter <= 0 {
		o.StallAfter = stallAfter
	}
	if o.ExitAfter <= 0 {
		o.ExitAfter = exitAfter
	}
	o.ExitAfter = max(o.ExitAfter, o.StallAfter)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		logger := o.Logger
		o.Fatal = func(err error) {
			logger.Error("stopping: the data directory failed", "error", err)
			os.Exit(1)
		}
	}
	if o.Unfit == nil {
		o.Unfit = func(string) {}
	}
	return o
}

// cachedLog puts raft's cache in front of a log store. The cache keeps the entries that raft passed in, so they never
// contain a checksum.
func cachedLog(inner raft.LogStore) (raft.LogStore, error) {
	return raft.NewLogCache(logCacheEntries, inner)
}

// openBolt opens raft.db for writing. A panic of bbolt over damage is returned as an error.
//
// Opening commits a transaction, as raftboltdb creates its buckets: everything read from here on is on the disk.
// Without that, a last commit whose fsync failed, or whose process died before it, would be read from the kernel's
// cache, be counted by a leader, and be lost with the power.
func openBolt(path string, noSync bool) (*raftboltdb.BoltStore, error) {
	return openWith(path, raftboltdb.Options{NoSync: noSync || planted.noFsync(), BoltOptions: boltOptions()})
}

// openToRead opens raft.db for reading.
func openToRead(path string) (*raftboltdb.BoltStore, error) {
	return openWith(path, raftboltdb.Options{BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: raftFileLock}})
}

func openWith(path string, options raftboltdb.Options) (bolt *raftboltdb.BoltStore, err error) {
	defer guardDamage(path, &err)
	options.Path = path
	if bolt, err = raftboltdb.New(options); err != nil {
		return nil, openRefusal(path, err)
	}
	return bolt, nil
}

// openRefusal returns the error for a file that bbolt did not open.
func openRefusal(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return rota.Refusef(rota.KindConflict, "data", "%s is locked by another process: one node has it "+
			"open already. Stop that process, or give this node a data directory of its own", path)
	case noRoom(err):
		return diskFull(filepath.Dir(path), err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch):
		return damaged(path, err.Error())
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// boltOptions returns options that keep commits cheap: without them bbolt rewrites the list of free pages at every
// commit, and that list grows.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:         raftFileLock,
		NoFreelistSync:  true,
		FreelistType:    bbolt.FreelistMapType,
		PreLoadFreelist: true,
		InitialMmapSize: raftFileMapped,
	}
}

// noRoom reports whether a write failed because the disk or the quota is full.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// diskFull returns the error for a full disk, the one write error that an operator can fix.
func diskFull(dir string, cause error) *rota.Error {
	err := rota.Refusef(rota.KindExhausted, "data", "data directory %s is full: "+
		"free space on its disk, but delete nothing in the directory, and start again", dir)
	err.Cause = cause
	return err
}

// diskFailed returns the error for any other failed write. It is never retried: after a failed fsync the kernel may
// mark the lost pages clean, and a retry "succeeds".
func diskFailed(dir string, cause error) *rota.Error {
	err := rota.Refusef(rota.KindInternal, "data", "data directory %s has failed: nothing more is written. "+
		"Look at the disk (dmesg, smartctl); when it is sound, start again, else replace it and join as a "+
		"new node with a new id", dir)
	err.Cause = cause
	return err
}

// dataGone returns the error for a log that was removed from under a live node.
func dataGone(path, how string) *rota.Error {
	return rota.Refusef(rota.KindConflict, "data",
		"%s %s: this node's next votes and entries would be lost, so it ends. "+
			"If its data directory was moved, put it back and start again. If it was deleted, replace the node by one "+
			"with a NEW node id and an empty data directory (docs/operations/replace-a-node.md)", path, how)
}

// damaged returns the error for a file whose content cannot be trusted.
func damaged(path, what string) *rota.Error {
	return rota.Refusef(rota.KindConflict, "data", "%s is damaged: %s. This node may have forgotten a vote or "+
		"an acknowledged entry, so it does not start. Move %s away, start with an empty data directory and a NEW "+
		"node id, then remove the old id from the cluster", path, what, filepath.Dir(path))
}
