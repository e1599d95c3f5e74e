// Package archive stores what a node no longer holds in memory in one file next to the log: the jobs that have ended,
// by their dense numbers, and the newest events, by entry and by count (SPEC §10.5, §12.3). docs/reference/formats.md
// has the layouts.
//
// [Open] opens the file; [OpenJobs] and [OpenEvents] each use their part of it. Both record what they hold, so that a
// node fetches missing records from the others and never mistakes a missing record for a missing job.
//
// All reads are verified. Damaged data is never served: it is reported, dropped, and fetched again. No decision depends
// on the file: a node whose file is gone starts without it.
package archive
