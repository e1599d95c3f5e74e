// Package sim lives whole lives of a cluster in one thread: machines over a toy
// ordered log, the leader's engine (stamps, sweeps, rounds, beats and silence as
// SPEC §3 says), workers and clients as step functions with monotonic clocks of
// their own. Messages are lost, doubled and late; leaders change, pause and
// crash; nodes lag, restart from snapshot and log. An auditor with a naive model
// of its own watches what SPEC §3.11 and §2 promise.
//
// Everything follows from a seed: a run that failed fails again.
//
//	go test ./test/sim -seeds 1000 -from 1
//	ROTA_SIM_SEEDS=1000 ROTA_SIM_FROM=1 go test ./test/sim
//
// The toy log stands in for Raft: one order of entries for all, and a leader
// that another one may depose at any moment. That Raft keeps such an order is
// not this package's matter.
//
// Two lives in three also have workflows, uploaded in chunks, given up, cancelled and
// run again (flows.go), held against a model of their own (flow_audit.go); and ghosts:
// processes that were replaced and speak on, entries of deposed leaders that come
// terms later. One in seven deletes jobs that ended, and tries to delete others (deletes.go);
// one has jobs that are unique by a key (uniques.go), one jobs that are held to the rules of
// their keys (keys.go), against a model of its own (keys_audit.go), some of which take turns (turns.go).
// One in eight has schedules (schedules.go), with a ledger of what became of each date (schedules_audit.go);
// one in nine has workers that take leases only while they ask (polls.go); one in seventeen a queue that backfills (backfills.go), whose
// reservations and plans are computed anew (backfills_audit.go);
// one in eleven has batches, with a ledger of what they took and how it ended (batches.go);
// one in thirteen has editors who change versions of settings that they have read (editors.go).
// A life that fails is told with the smallest one like it.
//
// It never reads a real clock, draws chance but from its seed, starts a
// goroutine, or is imported by anything that ships.
package sim
