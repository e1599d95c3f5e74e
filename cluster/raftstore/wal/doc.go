// Package wal stores raft's log in segment files: appends only, one fdatasync per batch.
//
// A directory holds the files 00000000000000000001.wal and so on. Each has a header and then frames, one per entry; a
// batch never spans two files. The owner keeps a Head for the log, durably and elsewhere: where the log begins, and an
// entry that was on the disk for certain (the mark).
//
// Opening separates damage from a write that a loss of power tore. Only the last batch can be torn, because each batch
// is synced before the next is written. So a frame that does not match its checksum is damage, and an error, if it is in
// an earlier file, if a whole batch follows it, or if the log would end before the mark. Otherwise it was never
// acknowledged and is cut off.
package wal
