package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/tidwall/btree"
)

// keys checks what is counted of jobs' keys. Invariant I11.
func (c *checker) keys() {
	kr := &c.m.keyring
	type counted struct{ jobs, open int64 }
	want := map[string]counted{}
	line := btree.NewBTreeGOptions(keyPlaceLess, btree.Options{NoLocks: true})
	c.m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		for _, h := range kr.of(&j.spec.JobSpec, nil) {
			n := want[h.count]
			n.jobs++
			if !j.lease.IsZero() {
				n.open++
			}
			want[h.count] = n
			if kr.counts.get(h.count) == nil {
				c.fault("I11: key %s of job %s is not counted", h.count, id)
			}
		}
		kr.lineUp(line, j)
		return true
	})
	c.m.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		if l.ended != nil {
			for _, h := range kr.of(&l.ended.spec, nil) {
				n := want[h.count]
				n.open++
				want[h.count] = n
			}
		}
		return true
	})
	seen, blockers := 0, map[rota.JobID]bool{}
	kr.counts.scan(func(key string, r *keyCountRow) bool {
		rule := kr.ruleOf(r)
		if rule == nil || r.key != key || key != keyCountKey(r.queue, r.tenant, r.text) || (rule.Scope == rota.KeyOfCluster) != (r.tenant == "") {
			c.fault("I11: key %s is counted without a rule", key)
			return true
		}
		if got := (counted{r.jobs, r.open}); got != want[key] || r.idle() {
			c.fault("I11: key %s counts %+v, the rows say %+v", key, got, want[key])
		}
		if r.jobs > 0 || r.open > 0 {
			seen++
		}
		if full := kr.left(r, rule) == 0; full && !r.full || r.full && !full && r.tat == 0 || r.due != kr.due(r, rule) {
			c.fault("I11: key %s is full: %v, the rows say %v", key, r.full, full)
		}
		if r.blocker != "" {
			blockers[r.blocker] = true
			if rule.Sequence != rota.SequenceBlock || !slices.Contains(kr.blocks[r.blocker], key) {
				c.fault("I11: key %s is blocked by job %s without being so", key, r.blocker)
			}
		}
		return true
	})
	if seen != len(want) || len(blockers) != len(kr.blocks) || kr.rules.len() != len(kr.byName) {
		c.fault("I11: %d keys have jobs, counted are %d; %d jobs block some, filed are %d", len(want), seen, len(blockers), len(kr.blocks))
	}
	kr.rules.scan(func(_ string, r *keyRuleRow) bool {
		if kr.rule(r.Queue, r.Name, r.Value) != r || kr.byName[idOfRule(&r.KeyRule)] != r {
			c.fault("I11: rule %s is not the one that its keys find", r.key)
		}
		if r.Queue != "" && c.m.queues.get(r.Queue) == nil {
			c.fault("I11: rule %s is of a queue that is not there", r.key)
		}
		return true
	})
	if line.Len() != kr.line.Len() {
		c.fault("I11: %d jobs stand in sequences, the rows say %d", kr.line.Len(), line.Len())
	}
	line.Scan(func(p keyPlace) bool {
		if _, ok := kr.line.Get(p); !ok {
			c.fault("I11: job %s does not stand at place %d of key %s", p.job, p.place, p.count)
		}
		return true
	})
}

// turns checks that the parties that wait in a queue are filed by the turns of their rows.
func (c *checker) turns(queue rota.QueueName, i *queueIndex) {
	kr, last := &c.m.keyring, int64(0)
	i.pending.Parties(func(party string, turn int64) bool {
		if kr.groups[queue] == nil || party != "" && kr.counts.get(party) == nil {
			c.fault("I11: key %q takes turns in queue %s, and no row counts them", party, queue)
			return true
		}
		if had := kr.turnsOf(queue, party); had != turn || turn < last {
			c.fault("I11: key %q of queue %s had %d turns, it is filed with %d behind one with %d", party, queue, had, turn, last)
		}
		last = turn
		return true
	})
}

// deriveRules finds the rules by their names, before anything is built that asks for them.
func (kr *keyring) deriveRules() {
	kr.restoring = true
	kr.rules.scan(func(_ string, r *keyRuleRow) bool {
		kr.list(r)
		return true
	})
}

// derive rebuilds what is no row, before jobs are filed.
func (kr *keyring) derive() {
	kr.counts.scan(func(key string, c *keyCountRow) bool {
		if planted.keyNotInSnapshot() {
			c.open = 0
		}
		if r := kr.ruleOf(c); r != nil {
			c.due = kr.due(c, r)
			kr.s.timers.key.set(key, 0, int64(c.due))
		}
		if c.blocker != "" {
			kr.blocks[c.blocker] = append(kr.blocks[c.blocker], key)
		}
		return true
	})
	if len(kr.names) == 0 {
		return
	}
	kr.s.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		kr.lineUp(kr.line, j)
		return true
	})
}
