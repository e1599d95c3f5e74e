// Package snapshot turns a state into bytes and back: one streamed, compressed,
// versioned and checksummed file format for Raft's snapshots and for backups
// (SPEC §13.5). DESIGN.md has the byte tables.
//
// Write takes records from a [Source], a frozen state, and Read gives them to a
// [Sink], a fresh state in the making. Both hold one block in memory, whatever
// the state's size. Everything is checked as it streams by: the header before a
// sink is made, each block before one record of it is handed out, all blocks
// together before the sink is asked for its state, and the state's digest by the
// sink itself. Inspect does all of that but the last, without a state.
//
// A refusal is a *rota.Error: Invalid for bytes that are damaged (errors.As
// finds a *[DamagedError] with the place) or that were never a snapshot,
// Conflict for a snapshot of a newer binary and for a file in the way. An error
// of the reader, the writer, the source or the sink keeps its own kind.
//
// The package never imports raft or grpc, never looks into a record, never
// trusts a length before it has been bounded, never overwrites a file, and never
// hands out a state that did not verify.
package snapshot
