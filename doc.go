// Package rota holds the words of the scheduler: the nouns, their states and
// the one table of legal moves, the errors, the limits and the presets that
// every other package speaks in.
//
// # Glossary (SPEC §1)
//
//   - node: one `rota server` process, a Raft voter or non-voter.
//   - job: one unit of work. queue: a named policy that jobs are submitted to.
//   - type: the handler a job asks for. tenant: who submits.
//   - worker: who executes; it registers and drains. Nodes join and leave.
//   - lease: the time-bounded right of one worker to one attempt.
//   - attempt: n = 0, 1, …; the failed attempt's number is n.
//   - tier: stratum 0 critical, 1 high, 2 normal, 3 low, 4 background.
//   - lane: the pending jobs of one queue that share tenant, class and domain.
//   - class: the set of requirements that decides which workers could ever fit.
//   - round: one matching decision for one queue, numbered by epoch.
//   - cluster clock: milliseconds that pass only while a leader commits (SPEC §3).
//   - date: Unix milliseconds, what people are shown (SPEC §3.8).
//
// The package never reads a clock, draws chance, touches a file or a socket,
// starts a goroutine, or imports another package of this module.
package rota
