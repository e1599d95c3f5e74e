// Package archive keeps what a node no longer holds in memory in one file beside the
// log: the jobs that have ended, by their dense numbers, and the newest events, by
// entry and by count (SPEC §10.5, §12.3). docs/reference/formats.md has the layouts.
//
// [Open] opens the file, [OpenJobs] and [OpenEvents] each take their part of it. Both
// know what they hold, so that a node fetches what it lacks from the others and never
// takes the lack of a record for the lack of a job.
//
// What is read is verified, and what is damaged is never served: it is reported,
// dropped, and fetched again. Nothing in the file decides anything: a node whose file
// is gone starts without it.
package archive
