package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// otherwise checks the refusal of an id that belongs to other content, and that it names the difference.
func (b *bench) otherwise(op *fsmpb.Op, how string) {
	b.t.Helper()
	if o := b.refuses(rota.KindConflict, "id", op); !strings.Contains(o.GetText(), how) {
		b.t.Fatalf("%q does not mention that %s", o.GetText(), how)
	}
}

// TestOtherContent checks that the refusal of an id in use names the field that differs, with both values, to callers
// that may read them.
func TestOtherContent(t *testing.T) {
	t.Parallel()
	t.Run("batch", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q", "attempt_max", "1"))
		b.ok(batchOp("b", 2))
		b.existed(batchOp("b", 2))
		b.otherwise(batchOp("b", 3), `its size was "2", not "3"`)
		b.otherwise(batchOp("b", 2, func(s *rota.JobSpec) { s.Type = "else" }),
			`its callback.type was "work", not "else"`)
		b.otherwise(batchOp("b", 2, paying("secret")), "its callback.payload was another")
		b.ok(entry.SealOp("b"))
		b.existed(entry.SealOp("b"))
		b.otherwise(batchOp("b", 2, func(s *rota.JobSpec) { s.Queue = "q" }),
			`its callback.queue was "default", not "q"`)
		b.otherwise(batchOp("b", 2, paying("secret")),
			"what is opened now differs from it") // it was submitted, and is gone
		b.ok(batchOp("c", 2))
		b.ok(by(rota.Local, roleOp("blind", rota.Grant{Right: rota.RightSubmit, Tenant: "*", Queue: "*"})))
		b.ok(by(rota.Local, tokenOp(tokenWish("a", "blind"))))
		b.otherwise(by(actorNamed("a"), batchOp("c", 3)), "what is opened now differs from it") // it may not read
	})
	t.Run("plan", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(planOp("p", rota.PlanReprioritise, "queue=q", urgency(3)))
		b.existed(planOp("p", rota.PlanReprioritise, "queue=q", urgency(3)))
		b.otherwise(planOp("p", rota.PlanReprioritise, "queue=r", urgency(3)),
			`its filter was "queue=q", not "queue=r"`)
		b.otherwise(planOp("p", rota.PlanReprioritise, "queue=q", urgency(4)), `its priority was "3", not "4"`)
		b.otherwise(planOp("p", rota.PlanCancel, "queue=q"), `its verb was "reprioritise", not "cancel"`)
		b.otherwise(planOp("p", rota.PlanReprioritise, "queue=q", urgency(3), most(2)), `its max was "0", not "2"`)
		b.ok(by(rota.Local, tokenOp(tokenWish("a", access.RoleRoot))))
		b.otherwise(by(actorNamed("a"), planOp("p", rota.PlanCancel, "queue=r")),
			"plan p was started before, and by somebody else")
	})
	t.Run("signal", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		d := newDAG("wf", [][]uint32{nil, {0}}, gateAt(0, rota.Gate{}))
		b.run(d)
		b.ok(d.signal("n0", "s1", "yes"))
		b.otherwise(d.signal("n0", "s1", "no"), "its payload was another")
		b.otherwise(d.refuse("n0", "s1", "yes"), "its refuse was false, not true")
		if o := b.refuses(rota.KindConflict, "signal", d.signal("n0", "s2", "yes")); !strings.Contains(o.GetText(),
			"by signal s1: the first one counts, not s2") {
			t.Error(o.GetText())
		}
	})
}

// TestWorkflowDifference checks the first field in which a submission differs from a workflow, however that grew
// meanwhile.
func TestWorkflowDifference(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gate := gateAt(1, rota.Gate{Timeout: time.Minute})
	b.ok(registerOp("w", 4, "1", true))
	d := diamond("wf", gate)
	b.run(d)
	b.match()
	b.grows(d, "n0", children("more"))
	v, ok := b.View.WorkflowView("wf")
	if !ok {
		t.Fatal("the workflow is not known")
	}
	for want, change := range map[string]func(*dag){
		"":                                  func(*dag) {},
		`its tenant was "default", not "x"`: func(d *dag) { d.Tenant = "x" },
		`its on_failure was "fail_fast", not "continue"`: continuing,
		`its labels was "map[]", not "map[a:b]"`:         func(d *dag) { d.Labels = map[string]string{"a": "b"} },
		`node n2 differs: its type was "work", not "y"`:  func(d *dag) { d.Nodes[2].Type = "y" },
		"node n3 differs: its payload was another":       func(d *dag) { d.Nodes[3].Payload = []byte("z") },
		"node n3 differs: its parents were others":       func(d *dag) { d.g.Parents[3] = []uint32{2} },
		"node n1 differs: its gate was another":          func(d *dag) { d.Nodes[1].Gate = &rota.Gate{Timeout: time.Hour} },
		`its node 2 was "n2", not "c"`:                   func(d *dag) { d.Nodes[2].ID = "c" },
		"it had 4 nodes, not 3": func(d *dag) {
			d.Nodes, d.g.Order, d.g.Parents = d.Nodes[:3], d.g.Order[:3], d.g.Parents[:3]
		},
		"it had 4 nodes, not 5": func(d *dag) {
			d.Nodes, d.g.Order, d.g.Parents = append(d.Nodes, d.Nodes[3]), append(d.g.Order, 4), append(d.g.Parents,
				nil)
		},
	} {
		other := diamond("wf", gate, func(d *dag) { d.Queue, d.Tenant = rota.DefaultQueue, rota.DefaultTenant }, change)
		if how := v.Difference(&other.WorkflowSpec, other.g); how != want {
			t.Errorf("got %q, want %q", how, want)
		}
	}
}
