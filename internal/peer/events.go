package peer

import "github.com/rotasched/rota"

// EventBatch is what a reader of events receives at a time.
type EventBatch struct {
	// Events may be empty: then only Scanned carries information.
	Events []rota.ServedEvent
	// Scanned is the event up to which the filter was applied to all events: a reader resumes after it and misses
	// nothing. The first batch has no events and gives in Scanned where the reading begins: zero at the oldest event
	// retained.
	Scanned rota.EventID
	// Own means that the events were selected for this reader: no other reader gets the same.
	Own bool
}

// EventRange asks a node for encoded events, whole entries at a time.
type EventRange struct {
	// From is the first event requested, as the number of events of the cluster before it. If At is not 0, the range
	// asks instead for the entry at that index, or the newest before it if no events lie between.
	From uint64
	At   rota.Index
}

// EventChunk is a node's part of a range: encoded entries from there on, or none. A node that has not applied that far
// has no chunk: it answers Unavailable.
type EventChunk struct {
	Data []byte
	// Oldest is the place of the node's oldest event at or after the requested one, Next that of the next event to
	// come; a place is the number of events before it.
	Oldest, Next uint64
}
