// Package sim runs whole lives of a cluster in one thread: machines over a toy ordered log, the leader's engine
// (stamps, sweeps, rounds, beats and silence as in SPEC §3), workers and clients as step functions with monotonic
// clocks of their own. Messages are lost, doubled and late; leaders change, pause and crash; nodes lag, restart from
// snapshot and log. An auditor with a naive model of its own checks the promises of SPEC §3.11 and §2.
//
// Everything follows from a seed: a run that failed fails again.
//
//	go test ./test/sim -seeds 1000 -from 1
//	ROTA_SIM_SEEDS=1000 ROTA_SIM_FROM=1 go test ./test/sim
//
// The toy log replaces Raft: one order of entries for all, and a leader that another one may depose at any moment.
// Whether Raft keeps such an order is not this package's matter.
//
// Two lives in three also have workflows, uploaded in chunks, given up, cancelled and retried (flows.go), checked
// against a model of their own (flow_audit.go); and ghosts: replaced processes that keep sending, entries of deposed
// leaders that arrive terms later.
//
//   - One in seven deletes jobs that ended, and tries to delete others (deletes.go); one in seven has jobs that are
//     unique by a key (uniques.go), one in seven jobs with rules for their keys (keys.go), checked against a model of
//     its own (keys_audit.go), some of which take turns (turns.go).
//   - One in eight has schedules (schedules.go), with a ledger of the outcome of each date (schedules_audit.go).
//   - One in nine has workers that get leases only while they poll (polls.go).
//   - One in seventeen has a queue that backfills (backfills.go), whose reservations and plans are calculated again
//     (backfills_audit.go).
//   - One in eleven has batches, with a ledger of the jobs they accepted and how those ended (batches.go).
//   - One in thirteen has editors that change versions of settings that they have read (editors.go).
//
// The lives of TestLimitSeeds are short and all have keys, costs and budgets.
//
// A failing life is reported with the smallest one like it.
//
// It never reads a real clock, draws chance except from its seed, starts a goroutine, or is imported by anything that
// ships.
package sim
