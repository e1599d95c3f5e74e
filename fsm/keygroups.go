package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// mayGroup refuses a rule by which keys take turns where something else says who is next.
func (kr *keyring) mayGroup(r *rota.KeyRule) error {
	if !r.Group {
		return nil
	}
	if g := kr.groups[r.Queue]; g != nil && g.Name != r.Name {
		return rota.Refusef(rota.KindConflict, "group", "the keys of %s take turns in queue %s: a queue has one such rule", g.Name, r.Queue)
	}
	return turnless(r.Queue, &kr.m.queues.get(r.Queue).policy)
}

// turnless refuses a policy under which keys cannot take turns.
func turnless(queue rota.QueueName, p *rota.QueuePolicy) error {
	if p.Ranking == rota.RankAdaptive || p.FairShare {
		return rota.Refusef(rota.KindConflict, "group", "keys cannot take turns in queue %s: its ranking is %s and its fair_share %s, another ranking "+
			"than adaptive, and fair_share off, are wanted", queue, p.Ranking, onOff(p.FairShare))
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
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
