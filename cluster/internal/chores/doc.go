// Package chores has the leader's background tasks that need only the replica and the log: it fires schedules, delivers
// events to webhooks, processes plans, stores backups, degrades a cluster that is overloaded, and removes dead voters.
//
// The package never knows how entries are made: a chore runs in a Term, through which it proposes operations.
package chores
