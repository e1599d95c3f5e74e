package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
	"github.com/tidwall/btree"
)

func keyPlaceLess(a, b keyPlace) bool {
	switch {
	case a.count != b.count:
		return a.count < b.count
	case a.place != b.place:
		return a.place < b.place
	}
	return a.job < b.job
}

// turnOf is the job whose turn it is in a sequence, whatever it waits for; "" where there is
// none, or it is blocked.
func (kr *keyring) turnOf(c *keyCountRow) (turn rota.JobID) {
	kr.line.Ascend(keyPlace{count: c.key}, func(p keyPlace) bool {
		if planted.passesHead(kr, p) {
			return true
		}
		turn = c.turnAt(p)
		return false
	})
	return turn
}

// turned files the jobs anew whose turn came, or is over.
func (kr *keyring) turned(c *keyCountRow, before rota.JobID) {
	now := kr.turnOf(c)
	if now == before {
		return
	}
	for _, id := range [...]rota.JobID{before, now} {
		if j := kr.s.jobs.get(id); j != nil && j.item != nil {
			if pending := kr.pending(j); pending.Remove(j.item) {
				pending.Add(j.item)
			}
		}
	}
}

// pass takes a job out of a sequence. One that ended as its head, and not well, blocks it.
func (kr *keyring) pass(c *keyCountRow, r *keyRuleRow, j *jobRow, st rota.JobState) {
	before, id := kr.turnOf(c), j.spec.ID
	place := c.placeOf(j)
	kr.line.Delete(keyPlace{c.key, place, id})
	failed := st == rota.JobDead || st == rota.JobExpired
	switch {
	case failed && before == id && r.Sequence == rota.SequenceBlock:
		if c.blocker != id {
			kr.unblock(c)
			c.blocker, c.place = id, place
			kr.blocks[id] = append(kr.blocks[id], c.key)
		}
		kr.tell(rota.EventKeyBlocked, c, id, st.String())
	case failed && before == id:
		kr.tell(rota.EventKeyPassed, c, id, st.String())
	case !failed && c.blocker == id:
		kr.unblock(c)
	}
	kr.turned(c, before)
}

// unblock forgets the job that blocks a sequence.
func (kr *keyring) unblock(c *keyCountRow) {
	if c.blocker == "" {
		return
	}
	kr.dropBlock(c)
	c.blocker, c.place = "", 0
}

func (kr *keyring) dropBlock(c *keyCountRow) {
	list := kr.blocks[c.blocker]
	for i, key := range list {
		if key == c.key {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(kr.blocks, c.blocker)
	} else {
		kr.blocks[c.blocker] = list
	}
}

// release lets the sequences go on that a job blocks which is deleted.
func (kr *keyring) release(id rota.JobID) {
	for len(kr.blocks[id]) > 0 {
		kr.skip(kr.counts.edit(kr.blocks[id][0]), "DELETED")
	}
}

// skip lets a sequence go on behind the job that blocks it. One that lives again stands where
// its retry does.
func (kr *keyring) skip(c *keyCountRow, why string) {
	before, id := kr.turnOf(c), c.blocker
	_, lives := kr.line.Delete(keyPlace{c.key, c.place, id})
	kr.unblock(c)
	if lives {
		kr.line.Set(keyPlace{c.key, kr.s.jobs.get(id).seq, id})
	}
	kr.tell(rota.EventKeyPassed, c, id, why)
	kr.turned(c, before)
	kr.settle(c, kr.ruleOf(c))
}

func (kr *keyring) tell(kind rota.EventKind, c *keyCountRow, id rota.JobID, why string) {
	kr.s.journal.emit(rota.Event{Kind: kind, Queue: c.queue, Tenant: c.tenant, Text: why, Payload: payload(keyMoved{c.text, id, why})})
}

// keyMoved is the payload of keyBlocked and keyPassed.
type keyMoved struct {
	Key string     `json:"key"`
	Job rota.JobID `json:"job_id"`
	Why string     `json:"why"`
}

// outOfTurn says why it is not a job's turn in a sequence, "" if it is. It names no job of
// another tenant or queue, which the reader may have no right to.
func (kr *keyring) outOfTurn(c *keyCountRow, j *jobRow) (reason, detail string) {
	switch turn := kr.turnOf(c); turn {
	case j.spec.ID:
		return "", ""
	case "":
		who := "a job"
		if t := kr.ended.tombs.get(c.blocker); t != nil && t.tenant == j.spec.Tenant && t.queue == j.spec.Queue {
			who = "job " + string(c.blocker)
		}
		return "SEQUENCE_BLOCKED", fmt.Sprintf("%s of key %s ended without completing", who, c.text)
	default:
		who := "another job"
		if t := kr.s.jobs.get(turn); t.spec.Tenant == j.spec.Tenant && t.spec.Queue == j.spec.Queue {
			who = "job " + string(turn)
		}
		return "WAITING_IN_SEQUENCE", fmt.Sprintf("%s of key %s goes first", who, c.text)
	}
}

// lineUp puts a job at its places.
func (kr *keyring) lineUp(line *btree.BTreeG[keyPlace], j *jobRow) {
	var room [keyHoldsMost]keyHold
	for _, h := range kr.of(&j.spec.JobSpec, room[:0]) {
		if c := kr.counts.get(h.count); c != nil && h.rule.Sequence != rota.SequenceNone {
			line.Set(keyPlace{h.count, c.placeOf(j), j.spec.ID})
		}
	}
}

// mayGroup refuses a rule by which keys take turns where something else says who is next.
func (kr *keyring) mayGroup(r *rota.KeyRule) error {
	if !r.Group {
		return nil
	}
	if g := kr.groups[r.Queue]; g != nil && g.Name != r.Name {
		return rota.Refusef(rota.KindConflict, "group", "the keys of %s take turns in queue %s: a queue has one such rule", g.Name, r.Queue)
	}
	return turnless(r.Queue, &kr.s.queues.get(r.Queue).policy)
}

// turnless refuses a policy under which keys cannot take turns.
func turnless(queue rota.QueueName, p *rota.QueuePolicy) error {
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
	return rota.Refusef(rota.KindConflict, "group", "group: got queue %s with%s, want neither; run `rota queue set %s%s` first", queue, has, queue, set)
}

// Party implements sched.Keyring: the count of a job's key that takes turns in its queue.
func (kr *keyring) Party(it *sched.Item) string { return kr.partyOf(it.JobSpec) }

func (kr *keyring) partyOf(s *rota.JobSpec) string {
	g := kr.groups[s.Queue]
	if g == nil {
		return ""
	}
	var room [keyHoldsMost]keyHold
	for _, h := range kr.of(s, room[:0]) {
		if h.rule.Queue == s.Queue && h.rule.Name == g.Name {
			return h.count
		}
	}
	return ""
}

// Turn implements sched.Keyring: a key that waits again goes on from the least turn of those that
// wait, or, where none does, from the last that was had. What it had beyond that it keeps: one whose
// only lease it waits for is no newcomer.
func (kr *keyring) Turn(it *sched.Item, least int64, others bool) int64 {
	if kr.groups[it.Queue] == nil {
		return 0 // the rule goes, and the queue's lanes are about to be built anew
	}
	party := kr.partyOf(it.JobSpec)
	turn := kr.turnsOf(it.Queue, party)
	if kr.restoring {
		return turn
	}
	if !others {
		least = kr.groups[it.Queue].last
	}
	turn = max(turn, least)
	kr.setTurns(it.Queue, party, turn)
	return turn
}

// turnsOf is how many turns a party had, "" that of the jobs that name none.
func (kr *keyring) turnsOf(queue rota.QueueName, party string) int64 {
	if party == "" {
		return kr.groups[queue].turn
	}
	return kr.counts.get(party).turn
}

func (kr *keyring) setTurns(queue rota.QueueName, party string, turn int64) {
	if kr.turnsOf(queue, party) == turn {
		return
	}
	if party != "" {
		kr.counts.edit(party).turn = turn
		return
	}
	kr.editGroup(queue).turn = turn
}

// editGroup is the rule of a queue's groups, editable.
func (kr *keyring) editGroup(queue rota.QueueName) *keyRuleRow {
	g := kr.rules.edit(kr.groups[queue].key)
	kr.know(g)
	return g
}

// hadTurn counts a turn of a job's party, as the job gets a lease.
func (kr *keyring) hadTurn(j *jobRow) {
	party := kr.partyOf(&j.spec.JobSpec)
	turn := kr.turnsOf(j.spec.Queue, party)
	if turn != kr.groups[j.spec.Queue].last {
		kr.editGroup(j.spec.Queue).last = turn
	}
	kr.setTurns(j.spec.Queue, party, turn+1)
	kr.pending(j).SetTurn(party, turn+1)
}
