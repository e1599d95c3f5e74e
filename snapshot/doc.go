// Package snapshot converts a state to bytes and back: one streamed, compressed, versioned and checksummed file format
// for Raft's snapshots and for backups (SPEC §13.5). DESIGN.md has the byte tables.
//
// Write reads records from a [Source], a frozen state, and Read passes them to a [Sink], which builds a new state. Both
// hold one block in memory, whatever the state's size. Everything is checked as it streams: the header before a sink is
// made, each block before any of its records is passed on, all blocks together before the sink is asked for its state,
// and the state's digest by the sink itself. Inspect performs all checks except the last, without a state.
//
// A refusal is a *rota.Error: Invalid for bytes that are damaged (errors.As finds a *[DamagedError] with the place) or
// that never were a snapshot, Conflict for a snapshot of a newer binary and for an existing file. An error of the
// reader, the writer, the source or the sink keeps its own kind.
//
// The package never imports raft or grpc, never looks into a record, never trusts a length before it has been bounded,
// never overwrites a file, and never returns a state that did not verify.
package snapshot
