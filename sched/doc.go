// Package sched holds the decisions of the scheduler: which job comes next
// (rank, SPEC §5), which worker may take it (fit, §6.1), which one gets it
// (match, §7), how long a failed attempt waits (backoff, §9.2), and the hashes
// that make every one of them repeatable (§7.1).
//
// # How a round works
//
// Supply knows every worker and every class. A class is a set of requirements;
// it keeps a bitset of the workers that could ever fit it, changed only when a
// worker registers, its reputation changes, or its queue's rules do. Pending files
// one queue's QUEUED jobs in lanes (tenant, class, domain) whose heads stand in
// ordered indexes. A Draft lays what one log entry assigns over a Supply, and
// Draft.Round draws candidates from a Pending and gives each a worker. A round
// costs what it touches: neither the number of pending jobs nor that of lanes
// shows in it.
//
// # Frozen and free
//
// BackoffMs, RankKey, LeaseID, NextBeacon, Stats.Observe and CompareTurn are
// called while entries are applied: integers only, changed only behind a rules
// version. Everything else is the leader's, whose outcome is proposed and
// checked again; it is still repeatable to the bit, so that audit can (§2.4).
//
// The package never reads a clock, draws chance (the shuffle's generator gets
// its whole seed from the caller), touches a file or a socket, starts a
// goroutine, takes a lock, walks a map, or changes what it was given but
// through a method whose name says so.
package sched
