// Package entry is the persisted form of log entries: their envelope with its checksum, the versions of the rules, the
// operations as bytes and as Go values, and their outcomes (docs/reference/formats.md).
//
// Package fsm applies the entries that it opens. It never decides what an operation does, and never reads a clock or
// does I/O.
package entry
