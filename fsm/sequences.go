package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/tidwall/btree"
)

// keyPlace is a job's place in the sequence of a count.
type keyPlace struct {
	count string
	place uint64
	job   rota.JobID
}

func keyPlaceLess(a, b keyPlace) bool {
	switch {
	case a.count != b.count:
		return a.count < b.count
	case a.place != b.place:
		return a.place < b.place
	}
	return a.job < b.job
}

// placeOf is a job's place in the sequence: one that blocks it keeps the place that it had.
func (r *keyCountRow) placeOf(j *jobRow) uint64 {
	if r.blocker == j.spec.ID {
		return r.place
	}
	return j.seq
}

// turnOf is the job whose turn it is in a sequence, whatever it waits for; "" where there is
// none, or it is blocked.
func (kr *keyring) turnOf(c *keyCountRow) (turn rota.JobID) {
	kr.line.Ascend(keyPlace{count: c.key}, func(p keyPlace) bool {
		if planted.passesHead(kr.m, p) {
			return true
		}
		if p.count == c.key && (c.blocker == "" || c.blocker == p.job || p.place < c.place) {
			turn = p.job
		}
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
		if j := kr.m.jobs.get(id); j != nil && j.item != nil {
			if pending := kr.pending(j); pending.Remove(j.item) {
				pending.Add(j.item)
			}
		}
	}
}

// pass takes a job out of a sequence. One that ended as its head, and not well, blocks it.
func (kr *keyring) pass(c *keyCountRow, r *keyRuleRow, j *jobRow, state rota.JobState) {
	before, id := kr.turnOf(c), j.spec.ID
	place := c.placeOf(j)
	kr.line.Delete(keyPlace{c.key, place, id})
	failed := state == rota.JobDead || state == rota.JobExpired
	switch {
	case failed && before == id && r.Sequence == rota.SequenceBlock:
		if c.blocker != id {
			kr.unblock(c)
			c.blocker, c.place = id, place
			kr.blocks[id] = append(kr.blocks[id], c.key)
		}
		kr.tell(rota.EventKeyBlocked, c, id, state.String())
	case failed && before == id:
		kr.tell(rota.EventKeyPassed, c, id, state.String())
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
		kr.line.Set(keyPlace{c.key, kr.m.jobs.get(id).seq, id})
	}
	kr.tell(rota.EventKeyPassed, c, id, why)
	kr.turned(c, before)
	kr.settle(c, kr.ruleOf(c))
}

func (kr *keyring) tell(kind rota.EventKind, c *keyCountRow, id rota.JobID, why string) {
	kr.m.journal.emit(rota.Event{Kind: kind, Queue: c.queue, Tenant: c.tenant, Text: why, Payload: payload(keyMoved{c.text, id, why})})
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
		if t := kr.m.ended.tombs.get(c.blocker); t != nil && t.tenant == j.spec.Tenant && t.queue == j.spec.Queue {
			who = "job " + string(c.blocker)
		}
		return "SEQUENCE_BLOCKED", fmt.Sprintf("%s of key %s ended without completing", who, c.text)
	default:
		who := "another job"
		if t := kr.m.jobs.get(turn); t.spec.Tenant == j.spec.Tenant && t.spec.Queue == j.spec.Queue {
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
