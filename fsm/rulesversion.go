package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// SubjectRules is the subject of what is refused because of the version of rules.
const SubjectRules = "rules_version"

// haltAtSwitch stops a node at the switch to rules that it does not know: its own
// state would no longer say what the others' says. A switch that is refused stops
// nobody. It is asked before anything is touched.
func (m *Machine) haltAtSwitch(index rota.Index, e *fsmpb.Entry, term uint64) error {
	if e.GetTerm() != m.head.term || term != m.head.term {
		return nil
	}
	for _, op := range e.GetOps() {
		if s := op.GetSwitchRules(); s != nil && s.GetVersion() > m.knows && s.GetVersion() <= entry.RulesMost {
			return entry.TooOld(index, s.GetVersion(), m.knows)
		}
	}
	return nil
}

// rulesChanged is the payload of that event.
type rulesChanged struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// switchRules puts newer rules into force. Versions may be left out: a binary that
// knows one knows all before it.
func (m *Machine) switchRules(op *fsmpb.SwitchRules) *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	from, to := m.head.rules, op.GetVersion()
	switch {
	case to > entry.RulesMost:
		return entry.Refused(rota.Refusef(rota.KindInvalid, SubjectRules, "rules version is %d: %d to %d is wanted", to, entry.FirstRules, entry.RulesMost))
	case to == from:
		return &fsmpb.Outcome{Existed: true}
	case to < from:
		return entry.Refused(rota.Refusef(rota.KindConflict, SubjectRules, "rules version %d is in force: it never goes back to %d", from, to))
	}
	m.head.rules = to
	m.journal.emit(rota.Event{Kind: rota.EventRulesChanged, Payload: payload(rulesChanged{from, to})})
	return &fsmpb.Outcome{}
}

// rules checks the version in force.
func (c *checker) rules() {
	if v := c.m.head.rules; v < entry.FirstRules || v > c.m.knows {
		c.fault("rules of version %d are in force, this binary knows %d to %d", v, entry.FirstRules, c.m.knows)
	}
}
