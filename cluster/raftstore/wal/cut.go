package wal

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// DeleteRange deletes the entries from low to high, both included, at either end of the log. The head is stored first,
// so that a crash leaves entries at most that raft no longer asks for.
func (l *Log) DeleteRange(low, high uint64) error {
	l.heads.Lock()
	defer l.heads.Unlock()
	l.mu.RLock()
	first, last := l.first(), l.last.Index
	l.mu.RUnlock()
	switch {
	case last == 0 || high < first || low > last || low > high:
		return nil
	case low > first && high < last:
		return fmt.Errorf("delete entries %d to %d: the log has %d to %d, and keeps one part", low, high, first, last)
	case low <= first && high >= last:
		return l.deleteAll()
	case low <= first:
		return l.deleteFront(high)
	}
	return l.deleteBack(low)
}

func (l *Log) deleteAll() error {
	l.mu.RLock()
	head := Head{File: l.next}
	l.mu.RUnlock()
	if err := l.save(head); err != nil {
		return err
	}
	l.mu.Lock()
	gone := l.segments
	l.segments, l.last = nil, Mark{}
	l.mu.Unlock()
	return l.unlink(gone)
}

func (l *Log) deleteFront(high uint64) error {
	l.mu.RLock()
	i := 0
	for i < len(l.segments) && (len(l.segments[i].offsets) == 0 || l.segments[i].last() <= high) {
		i++
	}
	s := l.segments[i] // it has entries: high is before the last
	cut := 0
	if high >= s.from {
		cut = int(high - s.from + 1)
	}
	head := Head{File: s.number, Offset: s.offsets[cut], Mark: l.head.Mark}
	if head.Mark.Index < s.from+uint64(cut) {
		head.Mark = l.last
	}
	l.mu.RUnlock()
	if err := l.save(head); err != nil {
		return err
	}
	l.mu.Lock()
	gone := slices.Clone(l.segments[:i])
	l.segments = slices.Clone(l.segments[i:])
	s.offsets, s.from = slices.Clone(s.offsets[cut:]), s.from+uint64(cut)
	l.mu.Unlock()
	return l.unlink(gone)
}

func (l *Log) deleteBack(low uint64) error {
	l.mu.RLock()
	i := len(l.segments) - 1
	for l.segments[i].from >= low || len(l.segments[i].offsets) == 0 { // an earlier one has an entry before low
		i--
	}
	s := l.segments[i]
	kept := min(len(s.offsets), int(low-s.from))
	head, end := l.begin(), s.end
	if kept < len(s.offsets) {
		end = s.offsets[kept]
	}
	l.mu.RUnlock()
	newest := make([]byte, frameBytes)
	if _, err := s.file.ReadAt(newest, s.offsets[kept-1]); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	f, ok := decodeFrame(newest, s.salt)
	if !ok {
		return &DamageError{s.path, fmt.Sprintf("entry %d does not match its checksum", s.from+uint64(kept)-1)}
	}
	head.Mark = Mark{f.index, f.term, f.sum}
	if err := l.save(head); err != nil {
		return err
	}
	l.mu.Lock()
	gone := slices.Clone(l.segments[i+1:])
	l.segments = slices.Clone(l.segments[:i+1])
	s.offsets, s.end, l.last = slices.Clone(s.offsets[:kept]), end, head.Mark
	l.next = s.number + 1
	l.mu.Unlock()
	slices.Reverse(gone) // newest first: what a crash leaves has no gap
	if err := l.unlink(gone); err != nil {
		return err
	}
	if err := s.file.Truncate(end); err != nil {
		return fmt.Errorf("cut the log: %w", err)
	}
	return l.syncWhole(s.file)
}

// unlink closes and removes files.
func (l *Log) unlink(gone []*segment) error {
	for _, s := range gone {
		if err := errors.Join(s.file.Close(), os.Remove(s.path)); err != nil {
			return fmt.Errorf("cut the log: %w", err)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return l.syncDir()
}
