package peer

import "github.com/rotasched/rota"

// EventBatch is what a reader of events receives at a time.
type EventBatch struct {
	// Events may be none: then only Scanned says something.
	Events []rota.ServedEvent
	// Scanned is the event up to which the filter was held against all: a reader
	// resumes after it, and misses nothing. The first batch has no events and says by it where
	// the reading begins: zero at the oldest that is retained.
	Scanned rota.EventID
	// Own says that the events were selected for this reader: no other gets the same.
	Own bool
}

// EventRange asks a node for encoded events, whole entries at a time.
type EventRange struct {
	// From is the first event wanted, by how many events of the cluster lie before
	// it. Where At is not 0 it asks instead for the entry at that index, or the
	// newest before it where no events lie between.
	From uint64
	At   rota.Index
}

// EventChunk is what a node has of a range: entries from there on, encoded, or
// none. A node that has not applied so much has no chunk: it answers Unavailable.
type EventChunk struct {
	Data []byte
	// Oldest is the place of the oldest event from the one asked for on that the
	// node has, Next that of the next one to come: how many events lie before.
	Oldest, Next uint64
}
