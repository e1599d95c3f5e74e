package snapshot

import (
	"io"

	"github.com/rotasched/rota"
)

// After the state a backup has sections: records of kinds that no state has. Raft's snapshots have none so far. A
// reader of a state, or of a section, skips records of unknown kinds, so that later versions may add some.
const (
	// FirstSection separates the kinds: those below belong to the state. 128 and 129 are package archive's.
	FirstSection byte = 128
	// SectionPast begins the part that audits replay: an older state's SnapshotInfo in JSON, of index 0 if the log goes
	// back to the cluster's first entry.
	SectionPast byte = 130
	// SectionPastRecord is one record of that state: its kind (1), then its bytes.
	SectionPastRecord byte = 131
	// SectionLog is one entry of the log after it: index (8, big-endian), term (8), raft's type (1), then its data.
	SectionLog byte = 132
)

// sections is a sink that separates a state's records from those of sections.
type sections[S any] struct {
	Sink[S]
	take func(kind byte, record []byte) error
}

// Sections returns a sink that passes records of sections to take, and all others to the state's sink. A nil take skips
// sections.
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

// ReadState is Read for a state only: it skips sections.
func ReadState[S any](r io.Reader, newSink func(rota.SnapshotInfo) (Sink[S], error)) (S, rota.SnapshotInfo, error) {
	return Read(r, func(info rota.SnapshotInfo) (Sink[S], error) {
		s, err := newSink(info)
		return Sections(s, nil), err
	})
}

// Discard is a sink that discards a state's records.
type Discard struct{}

// Add implements Sink.
func (Discard) Add(byte, []byte) error { return nil }

// Finish implements Sink.
func (Discard) Finish() (struct{}, error) { return struct{}{}, nil }
