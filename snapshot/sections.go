package snapshot

import (
	"io"

	"github.com/rotasched/rota"
)

// A backup goes on after the state with sections: records of kinds that no state
// has. Raft's snapshots have none so far; whoever reads a state, or a section, passes over
// those of kinds that it does not know, so that later versions may add some.
const (
	// FirstSection divides the kinds: those below are the state's. 128 and 129 are
	// package archive's.
	FirstSection byte = 128
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

// Sections returns a sink that hands records of sections to take, which may be nil
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

// ReadState is Read for a state alone: it passes over sections.
func ReadState[S any](r io.Reader, newSink func(rota.SnapshotInfo) (Sink[S], error)) (S, rota.SnapshotInfo, error) {
	return Read(r, func(info rota.SnapshotInfo) (Sink[S], error) {
		s, err := newSink(info)
		return Sections(s, nil), err
	})
}

// Discard is a sink that passes a state's records over.
type Discard struct{}

// Add implements Sink.
func (Discard) Add(byte, []byte) error { return nil }

// Finish implements Sink.
func (Discard) Finish() (struct{}, error) { return struct{}{}, nil }
