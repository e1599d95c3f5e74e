package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// editor reads a queue, a tenant and a rule of keys at any node, however far behind, and changes or deletes the version
// that it has read (SPEC §13.18). It draws from a random source of its own, separate from the world's.
type editor struct {
	actor
	w      *World
	chance *rand.Rand
	// value is the newest value set; no two changes set the same one.
	value int64
}

// edited is the name of all objects that editors change.
const edited = "edited"

// editable is a kind of object that editors change: how to read its value (0 if it does not exist) and
// version, how to set and how to delete it.
type editable struct {
	read func(*fsm.Machine) (int64, string)
	set  func(int64) *fsmpb.Op
	gone func() *fsmpb.Op
}

var editables = []editable{
	{func(m *fsm.Machine) (int64, string) {
		q, _ := m.Queue(edited)
		return q.Policy.Weight, q.ETag
	}, func(v int64) *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: edited, Set: weighing(v)}}}
	}, func() *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: edited}}}
	}},
	{func(m *fsm.Machine) (int64, string) {
		if t := m.Tenant(edited); t.Known {
			return t.Weight, t.ETag
		}
		return 0, m.Tenant(edited).ETag
	}, func(v int64) *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: &fsmpb.SetTenant{Id: edited, Set: weighing(v)}}}
	}, func() *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: edited}}}
	}},
	{func(m *fsm.Machine) (int64, string) {
		for _, r := range fsm.KeyRules(&m.View) {
			if r.Name == edited {
				return r.Concurrency, r.ETag
			}
		}
		return 0, ""
	}, func(v int64) *fsmpb.Op { return fsm.SetKeyRuleOp(&rota.KeyRule{Name: edited, Concurrency: v}) },
		func() *fsmpb.Op { return fsm.DeleteKeyRuleOp("", edited, "") }},
}

func weighing(v int64) []*fsmpb.Label { return []*fsmpb.Label{{Key: "weight", Value: fmt.Sprint(v)}} }

func newEditor(w *World) *editor {
	c := &editor{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0xed17))}
	c.name = "editor"
	if w.Edits {
		w.on(&c.actor, 2_000, c.work)
	}
	return c
}

// work lets one editor read and change an object, or several that have read the same version; it continues until the
// world heals.
func (c *editor) work() {
	w := c.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&c.actor, Time(c.chance.IntN(1_500)), c.work)
	of := c.chance.IntN(len(editables))
	value, etag := editables[of].read(w.nodes[c.chance.IntN(len(w.nodes))].machine)
	w.audit.edits[of].read(w.audit, value, etag)
	for range 1 + c.chance.IntN(3) {
		op := editables[of].gone()
		if c.chance.IntN(5) > 0 {
			c.value++
			op = editables[of].set(c.value)
		}
		switch c.chance.IntN(12) {
		case 0: // unconditional
		case 1:
			op.IfMatch = access.AnyVersion
		default:
			op.IfMatch = etag
		}
		for i := range 1 + c.chance.IntN(2) {
			w.on(&c.actor, Time(i*700), func() {
				n := w.nodes[c.chance.IntN(len(w.nodes))]
				w.forward(n, &c.actor, !n.down, op, func(*fsmpb.Outcome) {})
			})
		}
	}
}

// edits is the naive model of one object: its value, and the value of each version that was read.
type edits struct {
	value    int64
	versions map[string]int64
}

func newEdits() []edits {
	list := make([]edits, len(editables))
	for i := range list {
		list[i].versions = map[string]int64{}
	}
	return list
}

// read records the value of a version: no other value may have the same version.
func (m *edits) read(a *auditor, value int64, etag string) {
	if was, ok := m.versions[etag]; ok && was != value {
		a.failf("the values %d and %d of one object have version %q", was, value, etag)
	}
	m.versions[etag] = value
}

// edited checks each change to a version against the model: it applies if the version read is the current one, and is
// refused otherwise.
func (a *auditor) edited(e *fsmpb.Entry, r *fsm.Applied) {
	for i, op := range e.GetOps() {
		of, wanted, is := editOf(op)
		if !is {
			continue
		}
		m, o := &a.edits[of], r.Outcomes[i]
		read, holds := m.versions[op.GetIfMatch()]
		switch op.GetIfMatch() {
		case "":
			holds = true
		case access.AnyVersion:
			holds = m.value != 0 || of == 1 // a tenant that was never set has the defaults
		default:
			holds = holds && read == m.value
		}
		late := o.GetKind() == uint32(rota.KindConflict) && o.GetSubject() == "version"
		switch {
		case m.value == wanted: // it has this value already
			if late {
				a.failf("%v is refused, and changes nothing", op)
			}
		case late && holds:
			a.failf("%v is refused, and the value that it is of is %d still", op, m.value)
		case OutcomeOK(o) && !holds:
			a.failf("%v of value %d replaces value %d, which its editor has not read", op, read, m.value)
		case OutcomeOK(o):
			a.Edited++
			m.value = wanted
		case late:
			a.EditedLate++
		}
	}
}

// editOf returns the object that an operation edits, and the value that it sets.
func editOf(op *fsmpb.Op) (of int, value int64, is bool) {
	weight := func(set []*fsmpb.Label) int64 {
		var v int64
		_, _ = fmt.Sscan(set[0].GetValue(), &v)
		return v
	}
	switch {
	case op.GetSetQueue().GetName() == edited:
		return 0, weight(op.GetSetQueue().GetSet()), true
	case op.GetDeleteQueue().GetName() == edited:
		return 0, 0, true
	case op.GetSetTenant().GetId() == edited:
		return 1, weight(op.GetSetTenant().GetSet()), true
	case op.GetDeleteTenant().GetId() == edited:
		return 1, 0, true
	case op.GetSetKeyRule().GetName() == edited:
		return 2, op.GetSetKeyRule().GetConcurrency(), true
	case op.GetDeleteKeyRule().GetName() == edited:
		return 2, 0, true
	}
	return 0, 0, false
}

// keptEdits compares a node's values with the model.
func (a *auditor) keptEdits(n *node) {
	for of := range editables {
		if value, _ := editables[of].read(n.machine); value != a.edits[of].value {
			a.failf("node %s has value %d of object %d, the model has %d", n.name, value, of, a.edits[of].value)
		}
	}
}
