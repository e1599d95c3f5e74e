package sim

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// turnsQueue is the queue in which the keys of "a" take turns (SPEC §19.4), in addition to the default one.
const turnsQueue = "turns"

// turnsKept is how many turns another party may have while one waits for its own: one that it was behind by, the one of
// the same turn, and one that the party had in advance when the wait began. Turns that a party had at once, in a round
// that came too early for the others waiting, also count as in advance of them.
const turnsKept = 3

// turnsOp returns the operation that creates the queue.
func turnsOp() *fsmpb.Op {
	set := &fsmpb.SetQueue{Name: turnsQueue}
	for _, s := range [][2]string{{"ranking", "fifo"}, {"fair_share", "off"}, {"oldest_every", "0"},
		{"starvation_interleave", "0"}, {"hold_after", "600s"}} {
		set.Set = append(set.Set, &fsmpb.Label{Key: s[0], Value: s[1]})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}}
}

// turnJobs submits some jobs of the queue whose keys take turns, most of them of one party, some with a key that has a
// second rule, and sets the rule for turns.
func (k *keyer) turnJobs() {
	for range 1 + k.chance.IntN(5) {
		s := rota.NewJobSpec("work", []byte(fmt.Sprint(k.n)))
		s.ID, s.Queue, s.Tenant = rota.JobID(fmt.Sprint("k", k.n)), turnsQueue, rota.TenantID(fmt.Sprint("t",
			k.chance.IntN(2)))
		if party := k.chance.IntN(10); party > 0 {
			s.Keys = append(s.Keys, fmt.Sprint("a:", max(0, party-6)))
		}
		if k.chance.IntN(10) == 0 {
			s.Keys = append(s.Keys, fmt.Sprint("g:", k.chance.IntN(2)))
		}
		k.n++
		k.w.audit.keyed.specs[s.ID] = &s
		k.ask(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&s)}}})
	}
	if k.chance.IntN(4) == 0 {
		k.ask(fsm.SetKeyRuleOp(&rota.KeyRule{Queue: turnsQueue, Name: "a", Group: true,
			Concurrency: int64(13 + k.chance.IntN(2))}))
	}
}

// turns is the auditor's model of parties that take turns: the jobs of each that wait only for a worker, with the entry
// since which each does; the jobs with a lease, and the entries that ended one; since which entry the party may have a
// turn, and how often others were assigned since.
type turns struct {
	// set is whether the rule exists, from the entry setAt on; most is how many leases it allows a party that a key
	// names, from mostAt on, and before is the limit until then.
	set           bool
	setAt, mostAt rota.Index
	most, before  int
	waiting       map[string]map[rota.JobID]rota.Index
	open          map[string]map[rota.JobID]bool
	ended         map[string][]rota.Index
	since         map[string]rota.Index
	passed        map[string]map[string]int
	// had holds the turns of each party in the last entry in which it had any, hadAt.
	had   map[string]int
	hadAt map[string]rota.Index
	// aside holds the jobs that wait for a worker without any other lease (SPEC §9.7): for more than their party's
	// turn.
	aside map[rota.JobID]bool
	// advance holds the turns that a party had while such a job was stuck: a party that begins to wait during that
	// continues from the stuck party's turn (SPEC §19.4), so the turns of others meanwhile are in advance.
	advance map[string]int
	// heights holds the heights of the rounds that have a job of the entry.
	heights map[rota.JobID]rota.Index
}

func newTurns() turns {
	return turns{waiting: map[string]map[rota.JobID]rota.Index{}, open: map[string]map[rota.JobID]bool{},
		ended: map[string][]rota.Index{}, since: map[string]rota.Index{},
		passed: map[string]map[string]int{}, had: map[string]int{}, hadAt: map[string]rota.Index{},
		aside: map[rota.JobID]bool{}, advance: map[string]int{}}
}

// full reports whether a party has as many leases as the rule allows: then it waits for one of them, not for a turn.
func (t *turns) full(party string) bool { return t.set && party != "" && len(t.open[party]) >= t.most }

// seenFull reports whether a party was full for a round decided at a height: including leases that ended since, and
// with the limit of the rule at that time.
func (t *turns) seenFull(party string, height rota.Index) bool {
	seen, most := len(t.open[party]), t.most
	for _, at := range t.ended[party] {
		if at > height {
			seen++
		}
	}
	if height < t.mostAt {
		most = min(most, t.before)
	}
	return t.set && party != "" && seen >= most
}

// saw reports whether a round decided at a height saw a party wait for its turn.
func (t *turns) saw(height rota.Index, party string) bool {
	if t.seenFull(party, height) || height < t.since[party] {
		return false
	}
	for _, at := range t.waiting[party] {
		if at <= height {
			return true
		}
	}
	return false
}

// begins makes a party wait for its turn from an entry on.
func (t *turns) begins(party string, at rota.Index) {
	t.since[party], t.passed[party] = at, map[string]int{}
}

// waits records that a party's job waits only for a worker from an entry on.
func (t *turns) waits(party string, job rota.JobID, at rota.Index) {
	if len(t.waiting[party]) == 0 {
		t.waiting[party] = map[rota.JobID]rota.Index{}
		t.begins(party, at)
	}
	t.waiting[party][job] = at
}

// leaves records that a party's job no longer waits.
func (t *turns) leaves(party string, job rota.JobID) {
	delete(t.waiting[party], job)
	delete(t.aside, job)
}

// takes records that a party has a turn in an entry.
func (t *turns) takes(party string, job rota.JobID, at rota.Index) {
	t.leaves(party, job)
	if t.open[party] == nil {
		t.open[party] = map[rota.JobID]bool{}
	}
	t.open[party][job] = true
	if t.hadAt[party] != at {
		t.had[party], t.hadAt[party] = 0, at
	}
	t.had[party]++
	if len(t.aside) > 0 {
		t.advance[party]++
	}
}

// ends stops counting the lease of a party's job, if it has one.
func (t *turns) ends(party string, job rota.JobID, at rota.Index) {
	was := t.full(party)
	if t.open[party][job] {
		t.ended[party] = append(t.ended[party], at)
	}
	if delete(t.open[party], job); was && !t.full(party) {
		t.begins(party, at)
	}
}

// allows records how many leases the rule allows from an entry on.
func (t *turns) allows(most int64, at rota.Index) {
	var were []string
	for party := range t.open {
		if t.full(party) {
			were = append(were, party)
		}
	}
	if !t.set {
		t.set, t.setAt = true, at
	}
	if int(most) != t.most {
		t.before, t.mostAt, t.most = t.most, at, int(most)
	}
	for _, party := range were {
		if !t.full(party) {
			t.begins(party, at)
		}
	}
}

// turnOf returns the party of a job of the queue, and whether it waits for none of its other keys.
func (m *keyed) turnOf(id rota.JobID) (party string, free, ok bool) {
	s := m.specs[id]
	if s == nil || s.Queue != turnsQueue {
		return "", false, false
	}
	free = true
	for _, key := range s.Keys {
		if key[0] == 'a' {
			party = string(s.Tenant) + "/" + key
		} else {
			free = false
		}
	}
	return party, free, true
}

// rounds records when the rounds of an entry were decided.
func (t *turns) rounds(e *fsmpb.Entry) {
	t.heights = map[rota.JobID]rota.Index{}
	for _, op := range e.GetOps() {
		for _, p := range op.GetRound().GetPairs() {
			t.heights[rota.JobID(p.GetJob())] = rota.Index(op.GetRound().GetHeight())
		}
	}
}

// inTurns checks that no party waits for its turn while rounds that saw it wait give another more turns than allowed.
func (a *auditor) inTurns(r *fsm.Applied, e *rota.Event) {
	t := &a.turns
	if e.Kind == rota.EventKeyRuleChanged && e.Queue == turnsQueue {
		t.allows(a.keyed.rules["a:"].Concurrency, r.Index)
	}
	party, free, ok := a.keyed.turnOf(e.Job)
	if !ok {
		return
	}
	outlives := false // its lease, or that of its earlier life, counts until the worker confirms
	for _, l := range a.leases {
		outlives = outlives || l.outlives && l.job == e.Job && e.Lease.IsZero()
	}
	switch e.Kind {
	case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined, rota.EventJobCompleted,
		rota.EventJobRetryScheduled, rota.EventJobDelayed,
		rota.EventJobDead, rota.EventJobCancelled, rota.EventJobExpired, rota.EventJobEnqueued:
		if !outlives {
			t.ends(party, e.Job, r.Index)
		}
	}
	switch e.Kind {
	case rota.EventJobEnqueued:
		switch {
		case !free:
		case a.jobs[e.Job].alone:
			t.aside[e.Job] = true
		default:
			t.waits(party, e.Job, r.Index)
		}
	case rota.EventJobCleared:
		if t.aside[e.Job] {
			delete(t.aside, e.Job)
			t.waits(party, e.Job, r.Index)
		}
	case rota.EventAssignmentDropped: // another party has its turn now, and it has the next one again
		for other := range t.waiting {
			t.passed[other] = map[string]int{}
		}
	case rota.EventJobAssigned:
		t.takes(party, e.Job, r.Index)
		if !t.set || t.heights[e.Job] < t.setAt {
			return
		}
		a.Turned++
		for other := range t.waiting {
			if other == party {
				t.passed[other] = map[string]int{}
				continue
			}
			if !t.saw(t.heights[e.Job], other) {
				continue
			}
			t.passed[other][party]++
			switch had := t.passed[other][party]; {
			case had <= turnsKept+max(0, t.had[other]-1):
			case t.advance[other] > 0:
				t.advance[other]--
				t.passed[other][party]--
			default:
				a.failf("party %q had %d turns while party %q waited for one", party, t.passed[other][party], other)
			}
		}
	case rota.EventJobCancelled, rota.EventJobDead, rota.EventJobExpired, rota.EventJobDeleted:
		t.leaves(party, e.Job)
	}
}
