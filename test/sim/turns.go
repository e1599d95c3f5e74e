package sim

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// turnsQueue is the queue in which the keys of "a" take turns (SPEC §19.4), beside the default one.
const turnsQueue = "turns"

// turnsKept is how many turns another party may have while one waits for its own: one that it was
// behind by, the one of the same turn, and one that the party had in advance as it began to wait.
const turnsKept = 3

// turnsOp makes the queue.
func turnsOp() *fsmpb.Op {
	set := &fsmpb.SetQueue{Name: turnsQueue}
	for _, s := range [][2]string{{"ranking", "fifo"}, {"fair_share", "off"}, {"oldest_every", "0"}, {"starvation_interleave", "0"}, {"hold_after", "600s"}} {
		set.Set = append(set.Set, &fsmpb.Label{Key: s[0], Value: s[1]})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}}
}

// turnJobs submits some jobs of the queue whose keys take turns, most of them of one party, some of
// a key that others are held to as well, and sets the rule by which they do.
func (k *keyer) turnJobs() {
	for range 1 + k.chance.IntN(5) {
		s := rota.NewJobSpec("work", []byte(fmt.Sprint(k.n)))
		s.ID, s.Queue, s.Tenant = rota.JobID(fmt.Sprint("k", k.n)), turnsQueue, rota.TenantID(fmt.Sprint("t", k.chance.IntN(2)))
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
		k.ask(fsm.SetKeyRuleOp(&rota.KeyRule{Queue: turnsQueue, Name: "a", Group: true, Concurrency: int64(13 + k.chance.IntN(2))}))
	}
}

// turns is what the auditor knows of parties that take turns: the jobs of each that wait for
// nothing but a worker, since which entry any does, and how often others were assigned since.
type turns struct {
	// set is whether the rule is.
	set     bool
	waiting map[string]map[rota.JobID]bool
	since   map[string]rota.Index
	passed  map[string]map[string]int
	// heights are of the rounds that have a job of the entry.
	heights map[rota.JobID]rota.Index
}

func newTurns() turns {
	return turns{waiting: map[string]map[rota.JobID]bool{}, since: map[string]rota.Index{}, passed: map[string]map[string]int{}}
}

// turnOf is the party of a job of the queue, and whether it waits for none of its other keys.
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

// rounds notes when the rounds of an entry were decided.
func (t *turns) rounds(e *fsmpb.Entry) {
	t.heights = map[rota.JobID]rota.Index{}
	for _, op := range e.GetOps() {
		for _, p := range op.GetRound().GetPairs() {
			t.heights[rota.JobID(p.GetJob())] = rota.Index(op.GetRound().GetHeight())
		}
	}
}

// inTurns holds that no party waits while rounds that saw it wait give another more turns than it
// may have before.
func (a *auditor) inTurns(r *fsm.Applied, e *rota.Event) {
	t := &a.turns
	if e.Kind == rota.EventKeyRuleChanged && e.Queue == turnsQueue {
		t.set = true
	}
	party, free, ok := a.keyed.turnOf(e.Job)
	if !ok {
		return
	}
	switch e.Kind {
	case rota.EventJobEnqueued:
		if !free {
			return
		}
		if len(t.waiting[party]) == 0 {
			t.waiting[party], t.since[party], t.passed[party] = map[rota.JobID]bool{}, r.Index, map[string]int{}
		}
		t.waiting[party][e.Job] = true
	case rota.EventAssignmentDropped: // its party's turn is another's, and it has the next one again
		for other := range t.waiting {
			t.passed[other] = map[string]int{}
		}
	case rota.EventJobAssigned:
		delete(t.waiting[party], e.Job)
		if !t.set {
			return
		}
		a.Turned++
		for other, jobs := range t.waiting {
			if other == party {
				t.passed[other] = map[string]int{}
				continue
			}
			if len(jobs) == 0 || t.heights[e.Job] < t.since[other] {
				continue
			}
			if t.passed[other][party]++; t.passed[other][party] > turnsKept {
				a.failf("party %q had %d turns while party %q waited for one", party, t.passed[other][party], other)
			}
		}
	case rota.EventJobCancelled, rota.EventJobDead, rota.EventJobExpired, rota.EventJobDeleted:
		delete(t.waiting[party], e.Job)
	}
}
