package keys

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

func keyPlaceLess(a, b state.KeyPlace) bool {
	switch {
	case a.Count != b.Count:
		return a.Count < b.Count
	case a.Place != b.Place:
		return a.Place < b.Place
	}
	return a.Job < b.Job
}

// turnOf returns the job whose turn it is in a sequence, whatever else it waits for; "" if there is none, or the
// sequence is blocked.
func (kr *Keyring) turnOf(c *state.KeyCountRow) (turn rota.JobID) {
	kr.line.Ascend(state.KeyPlace{Count: c.Key}, func(p state.KeyPlace) bool {
		if planted.passesHead(kr, p) {
			return true
		}
		turn = c.TurnAt(p)
		return false
	})
	return turn
}

// turned files again the jobs whose turn came or is over.
func (kr *Keyring) turned(c *state.KeyCountRow, before rota.JobID) {
	now := kr.turnOf(c)
	if now == before {
		return
	}
	for _, id := range [...]rota.JobID{before, now} {
		if j := kr.s.JobTable.Get(id); j != nil && j.Item != nil {
			if pending := kr.Pending(j); pending.Remove(j.Item) {
				pending.Add(j.Item)
			}
		}
	}
}

// pass removes a job from a sequence. A job that ended as its head, without completing, blocks it.
func (kr *Keyring) pass(c *state.KeyCountRow, r *state.KeyRuleRow, j *state.JobRow, st rota.JobState) {
	before, id := kr.turnOf(c), j.Spec.ID
	place := c.PlaceOf(j)
	kr.line.Delete(state.KeyPlace{Count: c.Key, Place: place, Job: id})
	failed := st == rota.JobDead || st == rota.JobExpired
	switch {
	case failed && before == id && r.Sequence == rota.SequenceBlock:
		if c.Blocker != id {
			kr.unblock(c)
			c.Blocker, c.Place = id, place
			kr.blocks[id] = append(kr.blocks[id], c.Key)
		}
		kr.tell(rota.EventKeyBlocked, c, id, st.String())
	case failed && before == id:
		kr.tell(rota.EventKeyPassed, c, id, st.String())
	case !failed && c.Blocker == id:
		kr.unblock(c)
	}
	kr.turned(c, before)
}

// unblock removes the job that blocks a sequence.
func (kr *Keyring) unblock(c *state.KeyCountRow) {
	if c.Blocker == "" {
		return
	}
	kr.dropBlock(c)
	c.Blocker, c.Place = "", 0
}

func (kr *Keyring) dropBlock(c *state.KeyCountRow) {
	list := kr.blocks[c.Blocker]
	for i, key := range list {
		if key == c.Key {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(kr.blocks, c.Blocker)
	} else {
		kr.blocks[c.Blocker] = list
	}
}

// Release lets the sequences that a deleted job blocks continue, in the order of their counts. No snapshot keeps the
// order in which they were blocked, which v0.1.0 used on nodes that had not restarted.
func (kr *Keyring) Release(id rota.JobID) {
	for _, key := range slices.Sorted(slices.Values(kr.blocks[id])) {
		kr.skip(kr.CountRows.Edit(key), "DELETED")
	}
}

// skip lets a sequence continue after the job that blocks it. If that job lives again, its place is that of its retry.
func (kr *Keyring) skip(c *state.KeyCountRow, why string) {
	before, id := kr.turnOf(c), c.Blocker
	_, lives := kr.line.Delete(state.KeyPlace{Count: c.Key, Place: c.Place, Job: id})
	kr.unblock(c)
	if lives {
		kr.line.Set(state.KeyPlace{Count: c.Key, Place: kr.s.JobTable.Get(id).Seq, Job: id})
	}
	kr.tell(rota.EventKeyPassed, c, id, why)
	kr.turned(c, before)
	kr.settle(c, kr.RuleOf(c))
}

func (kr *Keyring) tell(kind rota.EventKind, c *state.KeyCountRow, id rota.JobID, why string) {
	kr.s.Journal.Emit(rota.Event{Kind: kind, Queue: c.Queue, Tenant: c.Tenant, Text: why,
		Payload: state.Payload(keyMoved{c.Text, id, why})})
}

// keyMoved is the payload of keyBlocked and keyPassed.
type keyMoved struct {
	Key string     `json:"key"`
	Job rota.JobID `json:"job_id"`
	Why string     `json:"why"`
}

// outOfTurn returns why it is not a job's turn in a sequence, "" if it is. It names no job of another tenant or queue,
// which the reader may not be allowed to read.
func (kr *Keyring) outOfTurn(c *state.KeyCountRow, j *state.JobRow) (reason, detail string) {
	switch turn := kr.turnOf(c); turn {
	case j.Spec.ID:
		return "", ""
	case "":
		who := "a job"
		if t := kr.ports.Tombs.Get(c.Blocker); t != nil && t.Tenant == j.Spec.Tenant && t.Queue == j.Spec.Queue {
			who = "job " + string(c.Blocker)
		}
		return "SEQUENCE_BLOCKED", fmt.Sprintf("%s of key %s ended without completing", who, c.Text)
	default:
		who := "another job"
		if t := kr.s.JobTable.Get(turn); t.Spec.Tenant == j.Spec.Tenant && t.Spec.Queue == j.Spec.Queue {
			who = "job " + string(turn)
		}
		return "WAITING_IN_SEQUENCE", fmt.Sprintf("%s of key %s goes first", who, c.Text)
	}
}

// lineUp adds a job at its places.
func (kr *Keyring) lineUp(line *btree.BTreeG[state.KeyPlace], j *state.JobRow) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		if c := kr.CountRows.Get(h.count); c != nil && h.rule.Sequence != rota.SequenceNone {
			line.Set(state.KeyPlace{Count: h.count, Place: c.PlaceOf(j), Job: j.Spec.ID})
		}
	}
}

// mayGroup refuses a rule by which keys take turns if another setting decides the order.
func (kr *Keyring) mayGroup(r *rota.KeyRule) error {
	if !r.Group {
		return nil
	}
	if g := kr.Groups[r.Queue]; g != nil && g.Name != r.Name {
		return rota.Refusef(rota.KindConflict, "group",
			"the keys of %s already take turns in queue %s: a queue has at most one such rule", g.Name, r.Queue)
	}
	return Turnless(r.Queue, &kr.s.QueueTable.Get(r.Queue).Policy)
}

// Turnless refuses a policy under which keys cannot take turns.
func Turnless(queue rota.QueueName, p *rota.QueuePolicy) error {
	var has, set string
	if p.FairShare {
		has, set = " fair_share on", " --set fair_share=off"
	}
	if p.Ranking == rota.RankAdaptive {
		has, set = has+" ranking adaptive", set+" --set ranking=aging"
	}
	if set == "" {
		return nil
	}
	return rota.Refusef(rota.KindConflict, "group",
		"group: got queue %s with%s, want neither; run `rota queue set %s%s` first", queue, has, queue, set)
}

// Party implements sched.Keyring: it returns the count of a job's key that takes turns in its queue.
func (kr *Keyring) Party(it *sched.Item) string { return kr.partyOf(it.JobSpec) }

func (kr *Keyring) partyOf(s *rota.JobSpec) string {
	g := kr.Groups[s.Queue]
	if g == nil {
		return ""
	}
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(s, room[:0]) {
		if h.rule.Queue == s.Queue && h.rule.Name == g.Name {
			return h.count
		}
	}
	return ""
}

// Turn implements sched.Keyring: a key that waits again continues from the least turn of the waiting keys, or, if none
// waits, from the last turn used. It keeps any turns beyond that: a key that waits for its only lease is not a
// newcomer.
func (kr *Keyring) Turn(it *sched.Item, least int64, others bool) int64 {
	if kr.Groups[it.Queue] == nil {
		return 0 // the rule is being removed, and the queue's lanes are about to be rebuilt
	}
	party := kr.partyOf(it.JobSpec)
	turn := kr.turnsOf(it.Queue, party)
	if kr.Restoring {
		return turn
	}
	if !others {
		least = kr.Groups[it.Queue].Last
	}
	turn = max(turn, least)
	kr.setTurns(it.Queue, party, turn)
	return turn
}

// turnsOf returns the number of turns of a party; "" is the party of the jobs that name none.
func (kr *Keyring) turnsOf(queue rota.QueueName, party string) int64 {
	if party == "" {
		return kr.Groups[queue].Turn
	}
	return kr.CountRows.Get(party).Turn
}

func (kr *Keyring) setTurns(queue rota.QueueName, party string, turn int64) {
	if kr.turnsOf(queue, party) == turn {
		return
	}
	if party != "" {
		kr.CountRows.Edit(party).Turn = turn
		return
	}
	kr.editGroup(queue).Turn = turn
}

// editGroup returns the rule of a queue's groups, editable.
func (kr *Keyring) editGroup(queue rota.QueueName) *state.KeyRuleRow {
	g := kr.Rules.Edit(kr.Groups[queue].Key)
	kr.know(g)
	return g
}

// HadTurn counts a turn of a job's party when the job gets a lease.
func (kr *Keyring) HadTurn(j *state.JobRow) {
	party := kr.partyOf(&j.Spec.JobSpec)
	turn := kr.turnsOf(j.Spec.Queue, party)
	if turn != kr.Groups[j.Spec.Queue].Last {
		kr.editGroup(j.Spec.Queue).Last = turn
	}
	kr.setTurns(j.Spec.Queue, party, turn+1)
	kr.Pending(j).SetTurn(party, turn+1)
}
