// Package sched holds the decisions of the scheduler: which job comes next (rank, SPEC §5), which workers may run it
// (fit, §6.1), which one gets it (match, §7), how long a failed attempt waits (backoff, §9.2), and the hashes that make
// each decision repeatable (§7.1).
//
// # How a round works
//
// Supply holds all workers and classes. A class is a set of requirements. It keeps a bitset of the workers that could
// ever fit it, which changes only when a worker registers, its reputation changes, or its queue's rules do. Pending
// files one queue's QUEUED jobs in lanes (tenant, class, domain) whose heads are in ordered indexes. A Draft overlays
// the assignments of one log entry on a Supply. Draft.Round draws candidates from a Pending and gives each a worker.
// The cost of a round depends on what it touches, not on the number of pending jobs or lanes.
//
// # Frozen and free
//
// BackoffMs, RankKey, LeaseID, NextBeacon, Stats.Observe and CompareTurn are called while entries are applied: they use
// integers only and change only behind a rules version. The leader runs everything else; its result is proposed and
// checked again. It is still repeatable to the bit, so that audit can repeat it (§2.4).
//
// The package never reads a clock, draws randomness (the shuffle's generator gets its whole seed from the caller),
// touches a file or a socket, starts a goroutine, takes a lock, iterates over a map, or changes its arguments except
// through a method whose name announces it.
package sched
