package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Head is what the owner of a log keeps durably: where the log begins, and a mark.
type Head struct {
	// File is the number of the first file and Offset where in it the first entry is. Older files do not belong to the
	// log. The zero value is that of a log that was never written.
	File   uint64
	Offset int64
	// Mark is an entry that is on the disk for certain.
	Mark Mark
}

// Mark identifies an entry and its content; the zero value means none.
type Mark struct {
	Index, Term uint64
	Sum         uint32
}

// DamageError reports that a log differs from the data written. Nothing was changed.
type DamageError struct {
	// Path is the file, or the directory if a file is missing.
	Path string
	// Reason states the fault.
	Reason string
}

// Error implements error.
func (e *DamageError) Error() string { return e.Path + " is damaged: " + e.Reason }

// Span is a range of indexes without a gap, both ends included.
type Span struct{ First, Last uint64 }

// Found is what a scan found.
type Found struct {
	// Spans are the entries, oldest first. A new one begins where raft left a gap.
	Spans []Span
	// LastTerm is the term of the last entry, 0 for an empty log.
	LastTerm uint64
	// Torn is the number of bytes at the end that a torn write left.
	Torn int64

	segments []*segment
	// unborn is a last file whose creation was interrupted, empty for none; old are files before the log.
	unborn string
	old    []string
	last   Mark
	// marked is where the mark ends.
	marked Head
}

// segment is one file of the log, in memory.
type segment struct {
	header
	path string
	file *os.File
	// offsets are those of the entries that are part of the log: entry i has the index from+i.
	from    uint64
	offsets []int64
	end     int64
}

// last is the index of the last entry, from-1 for none.
func (s *segment) last() uint64 { return s.from + uint64(len(s.offsets)) - 1 }

// Scan reads and checks the log in a directory, and writes nothing. A missing directory is an empty log. Damage is a
// *DamageError.
func Scan(dir string, head Head) (*Found, error) {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the log: %w", err)
	}
	found, numbers := &Found{}, []uint64(nil)
	for _, name := range names {
		switch number, ok := numberOf(name.Name()); {
		case !ok:
		case number < head.File:
			found.old = append(found.old, filepath.Join(dir, name.Name()))
		default:
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for i, number := range numbers {
		if want := max(head.File, 1) + uint64(i); number != want {
			return nil, &DamageError{dir, fmt.Sprintf("file %s is missing", fileName(want))}
		}
		if err := found.read(filepath.Join(dir, fileName(number)), number, head, i == len(numbers)-1); err != nil {
			return nil, err
		}
	}
	if m := head.Mark; m.Index > 0 && found.marked.File == 0 {
		path := dir
		if n := len(numbers); n > 0 {
			path = filepath.Join(dir, fileName(numbers[n-1]))
		}
		return nil, &DamageError{path, fmt.Sprintf("it ends at entry %d without entry %d, which it had",
			found.last.Index, m.Index)}
	}
	return found, nil
}

// read adds the entries of one file.
func (found *Found) read(path string, number uint64, head Head, newest bool) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	begins := number == head.File && head.Offset > headerBytes // in the middle of the file
	h, err := decodeHeader(data)
	if err != nil {
		if newest && len(data) <= headerBytes && !begins { // no entry was ever written to it
			found.unborn = path
			return nil
		}
		return &DamageError{path, err.Error()}
	}
	if h.number != number {
		return &DamageError{path, fmt.Sprintf("it is file %d", h.number)}
	}
	s, at := &segment{header: h, path: path, from: h.first}, int64(headerBytes)
	if begins {
		at, s.from = head.Offset, 0
	}
	if at > int64(len(data)) {
		return &DamageError{path, fmt.Sprintf("it has %d bytes, the log begins at %d", len(data), at)}
	}
	for at < int64(len(data)) {
		f, ok := intact(data[at:], h.salt)
		if !ok {
			break
		}
		if begins && s.from == 0 {
			s.from = f.index
		}
		if err := found.add(s, f, at, head); err != nil {
			return err
		}
		at += f.size()
	}
	s.end = at
	if at < int64(len(data)) {
		if !newest {
			return &DamageError{path, fmt.Sprintf("the bytes after entry %d do not match their checksum",
				found.last.Index)}
		}
		if later, ok := laterBatch(data[at:], h.salt, found.last.Index); ok {
			return &DamageError{path,
				fmt.Sprintf("entry %d does not match its checksum, but entry %d, which was written later, does",
					found.last.Index+1, later)}
		}
		found.Torn = int64(len(data)) - at
	}
	if s.from == 0 {
		s.from = h.first
	}
	found.segments = append(found.segments, s)
	return nil
}

// add adds one entry, which must follow the one before it.
func (found *Found) add(s *segment, f frame, at int64, head Head) error {
	starts := len(s.offsets) == 0
	n := len(found.Spans)
	switch {
	case f.index != s.from+uint64(len(s.offsets)) || f.index == 0:
		return &DamageError{s.path, fmt.Sprintf("entry %d is where entry %d belongs", f.index,
			s.from+uint64(len(s.offsets)))}
	case n > 0 && f.index <= found.last.Index:
		return &DamageError{s.path, fmt.Sprintf("entry %d comes after entry %d", f.index, found.last.Index)}
	case n > 0 && f.index == found.last.Index+1:
		found.Spans[n-1].Last = f.index
	case n > 0 && (!starts || !s.gap):
		return &DamageError{s.path, fmt.Sprintf("entries %d to %d are missing", found.last.Index+1, f.index-1)}
	default:
		found.Spans, found.last.Term = append(found.Spans, Span{f.index, f.index}), 0 // after a gap, terms may be lower
	}
	if f.term < found.last.Term {
		return &DamageError{s.path, fmt.Sprintf("entry %d has term %d after term %d", f.index, f.term, found.last.Term)}
	}
	s.offsets = append(s.offsets, at)
	found.last = Mark{f.index, f.term, f.sum}
	found.LastTerm = f.term
	if f.index == head.Mark.Index {
		if found.last != head.Mark {
			return &DamageError{s.path, fmt.Sprintf("entry %d is not the one that was written", f.index)}
		}
		found.marked = Head{File: s.number, Offset: at + f.size()}
	}
	return nil
}

// laterBatch looks for a whole frame that begins a batch after the one at the start of b.
func laterBatch(b []byte, salt uint32, last uint64) (index uint64, ok bool) {
	for at := alignment; at+frameBytes <= len(b); at += alignment {
		if f, ok := intact(b[at:], salt); ok && f.first && f.index > last+1 {
			return f.index, true
		}
	}
	return 0, false
}

// HoldsEntries reports whether a directory holds a file with more than a header.
func HoldsEntries(dir string) (bool, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("list the log: %w", err)
	}
	for _, name := range names {
		if _, ok := numberOf(name.Name()); !ok {
			continue
		}
		if info, err := name.Info(); err != nil || info.Size() > headerBytes {
			return true, err
		}
	}
	return false, nil
}
