package keys

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

// Check checks the counts of jobs' keys. Invariant I11.
func Check(kr *Keyring, leases *state.Table[string, state.LeaseRow, *state.LeaseRow],
	fault func(format string, args ...any),
) {
	type counted struct{ jobs, open, probing int64 }
	probe := func(h *keyHold, l *state.LeaseRow) int64 {
		r := kr.CountRows.Get(h.count)
		if r == nil || r.Breaker.State != rota.BreakerProbing || l == nil || l.Token.Counter <= r.Breaker.After {
			return 0
		}
		return 1
	}
	want := map[string]counted{}
	line := btree.NewBTreeGOptions(keyPlaceLess, btree.Options{NoLocks: true})
	kr.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		for _, h := range kr.of(&j.Spec.JobSpec, nil) {
			n := want[h.count]
			n.jobs++
			if !j.Lease.IsZero() {
				n.open++
				n.probing += probe(&h, leases.Get(string(j.Lease[:])))
			}
			want[h.count] = n
			if kr.CountRows.Get(h.count) == nil {
				fault("I11: key %s of job %s is not counted", h.count, id)
			}
		}
		kr.lineUp(line, j)
		return true
	})
	leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if l.Ended != nil {
			for _, h := range kr.of(&l.Ended.Spec, nil) {
				n := want[h.count]
				n.open++
				n.probing += probe(&h, l)
				want[h.count] = n
			}
		}
		return true
	})
	seen, blockers := 0, map[rota.JobID]bool{}
	kr.CountRows.Scan(func(key string, r *state.KeyCountRow) bool {
		rule := kr.RuleOf(r)
		if rule == nil || r.Key != key || key != state.KeyCountKey(r.Queue, r.Tenant, r.Text) ||
			(rule.Scope == rota.KeyOfCluster) != (r.Tenant == "") {
			fault("I11: key %s is counted without a rule", key)
			return true
		}
		if got := (counted{r.Jobs, r.Open, r.Breaker.Probing}); got != want[key] || r.Idle() {
			fault("I11: key %s counts %+v, the rows say %+v", key, got, want[key])
		}
		if r.Jobs > 0 || r.Open > 0 {
			seen++
		}
		if full := kr.full(r, rule); full && !r.Full || r.Full && !full && r.Tat == 0 && r.Debt.Total.IsZero() ||
			r.Due != kr.Due(r, rule) {
			fault("I11: key %s is full: %v, the rows say %v", key, r.Full, full)
		}
		if r.Blocker != "" {
			blockers[r.Blocker] = true
			if rule.Sequence != rota.SequenceBlock || !slices.Contains(kr.blocks[r.Blocker], key) {
				fault("I11: key %s is blocked by job %s without being so", key, r.Blocker)
			}
		}
		return true
	})
	checkCharges(kr, fault)
	if seen != len(want) || len(blockers) != len(kr.blocks) || kr.Rules.Len() != len(kr.byName) {
		fault("I11: %d keys have jobs, counted are %d; %d jobs block some, filed are %d", len(want), seen,
			len(blockers), len(kr.blocks))
	}
	units := 0
	kr.Rules.Scan(func(_ string, r *state.KeyRuleRow) bool {
		if r.Unit != "" || r.RefuseFull {
			units++
		}
		if kr.rule(r.Queue, r.Name, r.Value) != r || kr.byName[idOfRule(&r.KeyRule)] != r {
			fault("I11: rule %s is not the one that its keys find", r.Key)
		}
		if r.Queue != "" && kr.s.QueueTable.Get(r.Queue) == nil {
			fault("I11: rule %s is of a queue that is not there", r.Key)
		}
		return true
	})
	if units != kr.units {
		fault("I11: %d rules count QUEUED jobs, %d are counted", units, kr.units)
	}
	if line.Len() != kr.line.Len() {
		fault("I11: %d jobs stand in sequences, the rows say %d", kr.line.Len(), line.Len())
	}
	line.Scan(func(p state.KeyPlace) bool {
		if _, ok := kr.line.Get(p); !ok {
			fault("I11: job %s does not stand at place %d of key %s", p.Job, p.Place, p.Count)
		}
		return true
	})
}

// CheckTurns checks that the waiting parties of a queue are filed by the turns of their rows.
func CheckTurns(kr *Keyring, queue rota.QueueName, lanes *sched.Pending,
	fault func(format string, args ...any),
) {
	last := int64(0)
	lanes.Parties(func(party string, turn int64) bool {
		if kr.Groups[queue] == nil || party != "" && kr.CountRows.Get(party) == nil {
			fault("I11: key %q takes turns in queue %s, and no row counts them", party, queue)
			return true
		}
		if had := kr.turnsOf(queue, party); had != turn || turn < last {
			fault("I11: key %q of queue %s had %d turns, it is filed with %d behind one with %d", party, queue, had,
				turn, last)
		}
		last = turn
		return true
	})
}

// DeriveRules indexes the rules by name, before anything is built that uses them.
func (kr *Keyring) DeriveRules() {
	kr.Restoring = true
	kr.Rules.Scan(func(_ string, r *state.KeyRuleRow) bool {
		kr.list(r)
		return true
	})
}

// Derive rebuilds everything outside the rows, before jobs are filed.
func (kr *Keyring) Derive() {
	if len(kr.names) > 0 {
		kr.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
			if kr.lineUp(kr.line, j); j.State == rota.JobQueued {
				kr.SetQueued(j, true, false)
			}
			return true
		})
	}
	kr.CountRows.Scan(func(key string, c *state.KeyCountRow) bool {
		if planted.keyNotInSnapshot() {
			c.Open = 0
		}
		kr.noteStop(c)
		if r := kr.RuleOf(c); r != nil {
			c.Due = kr.Due(c, r)
			kr.s.Timers.Key.Refile(key, 0, int64(c.Due))
		}
		if c.Blocker != "" {
			kr.blocks[c.Blocker] = append(kr.blocks[c.Blocker], key)
		}
		return true
	})
}
