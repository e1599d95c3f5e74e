package snapshot

import (
	"encoding/binary"

	"github.com/rotasched/rota"
)

// A backup goes on after the state with sections: records of kinds that no state
// has. Raft's snapshots have none, and a reader that knows a section only by its
// kind passes it over.
const (
	// FirstSection divides the kinds: those below are the state's.
	FirstSection byte = 128
	// SectionArchive is one terminal job: its number (8 bytes, big-endian), then what
	// fsm.StagedRecord.Append wrote.
	SectionArchive byte = 128
	// SectionNumbers tells which numbers the archive held: its floor (8), then pairs
	// of first and last (8, 8), all big-endian. It follows the last SectionArchive.
	SectionNumbers byte = 129
	// SectionPast begins what audits replay: an older state's SnapshotInfo in JSON,
	// of index 0 where the log goes back to the cluster's first entry.
	SectionPast byte = 130
	// SectionPastRecord is one record of that state: its kind (1), then its bytes.
	SectionPastRecord byte = 131
	// SectionLog is one entry of the log after it: index (8, big-endian), term (8),
	// raft's type (1), then its data.
	SectionLog byte = 132
)

// sections is a sink that keeps a state's records apart from those of sections.
type sections[S any] struct {
	Sink[S]
	take func(kind byte, record []byte) error
}

// Sections gives a sink that hands records of sections to take, which may be nil
// to pass them over, and all others to the state's sink.
func Sections[S any](state Sink[S], take func(kind byte, record []byte) error) Sink[S] {
	return sections[S]{state, take}
}

// Add implements Sink.
func (s sections[S]) Add(kind byte, record []byte) error {
	switch {
	case kind < FirstSection:
		return s.Sink.Add(kind, record)
	case s.take == nil:
		return nil
	}
	return s.take(kind, record)
}

// sliceBytes is about how much of an archive is read at a time: no reading keeps
// the file's pages from being used again for as long as a backup's reader takes.
const sliceBytes = 1 << 20

// Section yields the archive up to a number as the sections of a backup.
func (a *Archive) Section(last uint64, yield func(kind byte, record []byte) error) error {
	var held Spans
	var record []byte
	floor := uint64(0)
	for from := uint64(1); from <= last; {
		slice, err := a.Range(from, last, sliceBytes)
		if err != nil {
			return err
		}
		floor = max(floor, slice.Floor)
		if len(slice.Covered) == 0 {
			break
		}
		for _, r := range slice.Records {
			record = append(binary.BigEndian.AppendUint64(record[:0], r.Seq), r.Data...)
			if err := yield(SectionArchive, record); err != nil {
				return err
			}
		}
		for _, x := range slice.Covered {
			held.Add(x.From, x.To)
			from = x.To + 1
		}
	}
	return yield(SectionNumbers, held.append(binary.BigEndian.AppendUint64(record[:0], floor)))
}

// ArchiveLoader takes the sections of a backup into an archive, in batches.
type ArchiveLoader struct {
	to    *Archive
	batch []Entry
	bytes int
}

// NewArchiveLoader loads into an archive that is claimed and empty.
func NewArchiveLoader(to *Archive) *ArchiveLoader { return &ArchiveLoader{to: to} }

// Take takes one record of a section; kinds that are not the archive's are passed
// over.
func (l *ArchiveLoader) Take(kind byte, record []byte) error {
	switch kind {
	case SectionArchive:
		if len(record) < 8 {
			return rota.Refusef(rota.Invalid, "archive", "an archived record has %d bytes", len(record))
		}
		l.batch = append(l.batch, Entry{Seq: number(record[:8]), Data: append([]byte(nil), record[8:]...)})
		if l.bytes += len(record); l.bytes >= sliceBytes {
			return l.Flush()
		}
	case SectionNumbers:
		if err := l.Flush(); err != nil {
			return err
		}
		held, ok := Spans(nil), len(record) >= 8
		if ok {
			held, ok = parseSpans(record[8:])
		}
		if !ok {
			return rota.Refusef(rota.Invalid, "archive", "the numbers of archived records are damaged")
		}
		return l.to.adopt(number(record[:8]), held)
	}
	return nil
}

// Flush writes what is collected.
func (l *ArchiveLoader) Flush() error {
	if len(l.batch) == 0 {
		return nil
	}
	err := l.to.Put(l.batch, nil)
	l.batch, l.bytes = l.batch[:0], 0
	return err
}
