package archive

import (
	"encoding/binary"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// The kinds of a backup's sections that the archive writes and reads; package snapshot has the others.
const (
	// sectionRecord is one terminal job: its number (8 bytes, big-endian), then the output of fsm.StagedRecord.Append.
	sectionRecord byte = 128
	// sectionNumbers lists the numbers that the archive held: its floor (8), then pairs of first and last (8, 8), all
	// big-endian. It follows the last sectionRecord.
	sectionNumbers byte = 129
)

// sliceBytes is about how much of an archive is read at a time, so that no read keeps the file's pages from being
// reused for as long as a backup's reader takes.
const sliceBytes = 1 << 20

// Section yields the archive up to a number as the sections of a backup.
func (a *Jobs) Section(last uint64, yield func(kind byte, record []byte) error) error {
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
			if err := yield(sectionRecord, record); err != nil {
				return err
			}
		}
		for _, x := range slice.Covered {
			held.Add(x.From, x.To)
			from = x.To + 1
		}
	}
	return yield(sectionNumbers, held.append(binary.BigEndian.AppendUint64(record[:0], floor)))
}

// Loader writes the sections of a backup into an archive, in batches.
type Loader struct {
	to    *Jobs
	batch []peer.ArchiveRecord
	bytes int
}

// NewLoader returns a loader for an archive that is claimed and empty.
func NewLoader(to *Jobs) *Loader { return &Loader{to: to} }

// Take receives one record of a section; kinds that are not the archive's are skipped.
func (l *Loader) Take(kind byte, record []byte) error {
	switch kind {
	case sectionRecord:
		if len(record) < 8 {
			return rota.Refusef(rota.KindInvalid, "archive", "an archived record has %d bytes", len(record))
		}
		l.batch = append(l.batch, peer.ArchiveRecord{Seq: number(record[:8]), Data: append([]byte(nil), record[8:]...)})
		if l.bytes += len(record); l.bytes >= sliceBytes {
			return l.Flush()
		}
	case sectionNumbers:
		if err := l.Flush(); err != nil {
			return err
		}
		held, ok := Spans(nil), len(record) >= 8
		if ok {
			held, ok = parseSpans(record[8:])
		}
		if !ok {
			return rota.Refusef(rota.KindInvalid, "archive", "the numbers of archived records are damaged")
		}
		return l.to.adopt(number(record[:8]), held)
	}
	return nil
}

// Flush writes the collected records.
func (l *Loader) Flush() error {
	if len(l.batch) == 0 {
		return nil
	}
	err := l.to.Put(l.batch, nil)
	l.batch, l.bytes = l.batch[:0], 0
	return err
}
