package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota/internal/failpoint"
)

const (
	// fileSize is the size from which the next batch begins a new file: small enough to free disk soon after a
	// snapshot, large enough that creating one (three syncs) is rare.
	fileSize = 64 << 20
	// maxKeptBuffer is the largest buffer that is kept for the next batch.
	maxKeptBuffer = 1 << 20
)

// Entry is an entry of a log.
type Entry = raft.Log

// Options configures Open.
type Options struct {
	// SaveHead stores the head durably. It is called by cuts, and by SaveMark from any goroutine, one call at a time.
	SaveHead func(Head) error
	// FileSize is the size in bytes from which a batch begins a new file, 0 for 64 MiB.
	FileSize int64
	// NoSync skips syncs. For tests only.
	NoSync bool
	// Unverified skips the checksums of entries that are read. For tests of tests only.
	Unverified bool
}

// Log is an open log. One goroutine writes (StoreLogs, DeleteRange); reading and SaveMark may happen at any time.
// After an error of a write, nothing may be written again.
type Log struct {
	dir    string
	opts   Options
	buffer []byte

	heads sync.Mutex // held while the head is stored; never inside mu

	mu       sync.RWMutex // guards the fields below
	segments []*segment   // oldest first
	head     Head         // as stored
	last     Mark         // the last entry, which is on the disk
	next     uint64       // number of the next file
	closed   bool
}

// Open checks the log in a directory, which it creates if it is missing, cuts off what a torn write left, and puts
// everything else onto the disk: entries after the mark may be in the kernel's cache only, and a failed sync may have
// marked them as written.
func Open(dir string, head Head, opts Options) (*Log, error) {
	if opts.FileSize <= 0 {
		opts.FileSize = fileSize
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil && !opts.NoSync {
		err = syncDir(filepath.Dir(dir))
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("create the log: %w", err)
	}
	found, err := Scan(dir, head)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, opts: opts, head: head, segments: found.segments, last: found.last, next: max(head.File, 1)}
	if n := len(found.segments); n > 0 {
		l.next = found.segments[n-1].number + 1
	}
	if err := l.repair(found); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// OpenToRead opens the log that Scan found, and changes nothing. Only GetLog, FirstIndex, LastIndex and Close may be
// called.
func OpenToRead(found *Found) (*Log, error) {
	l := &Log{segments: found.segments, last: found.last}
	for _, s := range l.segments {
		var err error
		if s.file, err = os.Open(s.path); err != nil {
			return nil, errors.Join(fmt.Errorf("open the log: %w", err), l.Close())
		}
	}
	return l, nil
}

func (l *Log) repair(found *Found) error {
	remove := found.old
	if found.unborn != "" {
		remove = append(remove, found.unborn)
	}
	for _, path := range remove {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
	}
	for i, s := range l.segments {
		var err error
		if s.file, err = os.OpenFile(s.path, os.O_RDWR, 0); err != nil {
			return fmt.Errorf("open the log: %w", err)
		}
		if i == len(l.segments)-1 && found.Torn > 0 {
			if err := s.file.Truncate(s.end); err != nil {
				return fmt.Errorf("cut a torn write off: %w", err)
			}
		}
		if s.number < found.marked.File {
			continue
		}
		from := int64(0)
		if s.number == found.marked.File {
			from = found.marked.Offset
		}
		if err := l.writeAgain(s, from); err != nil {
			return err
		}
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	return l.SaveMark()
}

// writeAgain writes the bytes of a file from an offset on once more, and syncs it.
func (l *Log) writeAgain(s *segment, from int64) error {
	part := make([]byte, 1<<20)
	for at := from; at < s.end; {
		n, err := s.file.ReadAt(part[:min(int64(len(part)), s.end-at)], at)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if _, err := s.file.WriteAt(part[:n], at); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
		at += int64(n)
	}
	return l.sync(s.file)
}

// FirstIndex returns the index of the oldest entry, 0 for an empty log.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.first(), nil
}

func (l *Log) first() uint64 {
	for _, s := range l.segments {
		if len(s.offsets) > 0 {
			return s.from
		}
	}
	return 0
}

// LastIndex returns the index of the newest entry, 0 for an empty log.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.last.Index, nil
}

// find returns the file and the position in it of an entry; ok is false if the log does not have it.
func (l *Log) find(index uint64) (s *segment, at int, ok bool) {
	i, ok := slices.BinarySearchFunc(l.segments, index, func(s *segment, index uint64) int {
		switch {
		case index < s.from:
			return 1
		case index > s.last():
			return -1
		}
		return 0
	})
	if !ok {
		return nil, 0, false
	}
	return l.segments[i], int(index - l.segments[i].from), true
}

// GetLog reads an entry from the disk and checks it. An entry that the log does not have is raft.ErrLogNotFound, a
// damaged one a *DamageError.
func (l *Log) GetLog(index uint64, entry *raft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return os.ErrClosed
	}
	s, at, ok := l.find(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	end := s.end
	if at+1 < len(s.offsets) {
		end = s.offsets[at+1]
	}
	b := make([]byte, end-s.offsets[at])
	if _, err := s.file.ReadAt(b, s.offsets[at]); err != nil {
		return &DamageError{s.path, fmt.Sprintf("entry %d cannot be read: %v", index, err)}
	}
	f, ok := intact(b, s.salt)
	switch {
	case !ok && l.opts.Unverified && frameBytes+f.extensions+f.data <= len(b) && f.index == index:
	case !ok:
		return &DamageError{s.path, fmt.Sprintf("entry %d does not match its checksum", index)}
	case f.index != index:
		return &DamageError{s.path, fmt.Sprintf("entry %d is where entry %d belongs", f.index, index)}
	}
	*entry = raft.Log{Index: f.index, Term: f.term, Type: f.kind}
	body := b[frameBytes:]
	if f.extensions > 0 {
		entry.Extensions = body[:f.extensions:f.extensions]
	}
	if f.data > 0 {
		entry.Data = body[f.extensions : f.extensions+f.data : f.extensions+f.data]
	}
	return nil
}

// StoreLog stores one entry.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries with consecutive indexes, in one write and one sync. Indexes may be missing before the
// first.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	for i, e := range entries {
		if want := entries[0].Index + uint64(i); e.Index != want || e.Index <= l.last.Index {
			return fmt.Errorf("store entry %d: the log ends at entry %d, and entry %d is next in the batch", e.Index,
				l.last.Index, want)
		}
	}
	s, err := l.room(entries[0].Index)
	if err != nil {
		return err
	}
	b, offsets := l.buffer[:0], make([]int64, len(entries))
	for i, e := range entries {
		offsets[i] = s.end + int64(len(b))
		if b, err = appendFrame(b, e, s.salt, i == 0); err != nil {
			return fmt.Errorf("store entry %d: %w", e.Index, err)
		}
	}
	if cap(b) <= maxKeptBuffer {
		l.buffer = b
	}
	tear(s.file, b, s.end)
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	failpoint.Pass("log-before-sync")
	if err := l.sync(s.file); err != nil {
		return err
	}
	newest := entries[len(entries)-1]
	f, _ := decodeFrame(b[offsets[len(offsets)-1]-s.end:], s.salt)
	l.mu.Lock()
	defer l.mu.Unlock()
	s.offsets = append(s.offsets, offsets...)
	s.end += int64(len(b))
	l.last = Mark{newest.Index, newest.Term, f.sum}
	return nil
}

// room returns the file for a batch, a new one if the last is full or entries are missing before the batch.
func (l *Log) room(index uint64) (*segment, error) {
	gap := l.last.Index > 0 && index != l.last.Index+1
	if n := len(l.segments); n > 0 && !gap {
		if s := l.segments[n-1]; s.end < l.opts.FileSize && (len(s.offsets) > 0 || s.from == index) {
			return s, nil
		}
	}
	s := &segment{header: header{number: l.next, first: index, gap: gap}, from: index, end: headerBytes,
		path: filepath.Join(l.dir, fileName(l.next))}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	s.salt = binary.LittleEndian.Uint32(salt[:])
	var err error
	if s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, fmt.Errorf("create a file of the log: %w", err)
	}
	if _, err = s.file.WriteAt(s.encode(), 0); err == nil {
		err = l.sync(s.file)
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a file of the log: %w", err), s.file.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, s)
	l.next++
	return s, nil
}

// SaveMark stores the last entry as the mark.
func (l *Log) SaveMark() error {
	l.heads.Lock()
	defer l.heads.Unlock()
	l.mu.RLock()
	head, same := l.begin(), l.head.Mark == l.last
	head.Mark = l.last
	l.mu.RUnlock()
	if same {
		return nil
	}
	return l.save(head)
}

// begin returns the head with the place of the first entry, and the mark as stored.
func (l *Log) begin() Head {
	head := l.head
	for _, s := range l.segments {
		if len(s.offsets) > 0 {
			head.File, head.Offset = s.number, s.offsets[0]
			return head
		}
	}
	head.File, head.Offset = l.next, 0
	return head
}

// save stores a head; heads is held.
func (l *Log) save(head Head) error {
	failpoint.Pass("log-before-mark")
	if err := l.opts.SaveHead(head); err != nil {
		return err
	}
	failpoint.Pass("log-after-mark")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = head
	return nil
}

// Newest returns the path of the newest file, empty for none. held reports whether the file there is the open one.
func (l *Log) Newest() (path string, held func(there os.FileInfo) bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := len(l.segments)
	if n == 0 {
		return "", nil
	}
	open, err := l.segments[n-1].file.Stat()
	return l.segments[n-1].path, func(there os.FileInfo) bool { return err != nil || os.SameFile(open, there) }
}

// Close closes the files. It does not store the mark.
func (l *Log) Close() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for _, s := range l.segments {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	return err
}
