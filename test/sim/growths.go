package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// growthsDeep limits how deep growths are nested: each adds a dot to its children's names.
const growthsDeep = 3

// drawGrowth lets the completion of a node add others now and then, with names that only this node uses, so that a run
// is the same as before growths existed.
func (c *flowClient) drawGrowth(t *task) {
	_, node, _ := rota.SplitNodeJobID(t.given.Lease.Job)
	id := t.given.Lease.ID
	r := rand.New(rand.NewPCG(c.w.Seed, uint64(id[0])<<8|uint64(id[1])))
	if strings.Count(node, ".") >= growthsDeep || r.IntN(4) > 0 {
		return
	}
	g := &rota.Growth{Detached: r.IntN(4) == 0}
	before := []string{node}
	for i := range 1 + r.IntN(3) {
		n := rota.NewNodeSpec(fmt.Sprint(node, ".", i), "work", []byte("child"))
		if r.IntN(8) == 0 {
			n.Type = typeDoomed
		}
		for _, p := range before {
			if r.IntN(2) == 0 {
				n.Parents = append(n.Parents, p)
			}
		}
		g.Children, before = append(g.Children, n), append(before, n.ID)
	}
	t.growth = g
}

// growsBy returns the growth that a command adds.
func (t *task) growsBy(v rota.LeaseVerb) *rota.Growth {
	if v != rota.VerbComplete {
		return nil
	}
	return t.growth
}

// growing records the growth of an accepted completion: an event of its workflow follows, unless that is ending.
func (a *auditor) growing(op *fsmpb.LeaseOp) {
	var g fsmpb.Growth
	id, node, _ := rota.SplitNodeJobID(rota.JobID(op.GetJob()))
	x := a.flows[id]
	if x == nil || len(op.GetChildren()) == 0 {
		return
	}
	if err := proto.Unmarshal(op.GetChildren(), &g); err != nil {
		a.failf("children of %s: %v", op.GetJob(), err)
	}
	if x.growing == nil {
		x.growing = map[string]*fsmpb.Growth{}
	}
	x.growing[node] = &g
}

// grows adds a node's growth to the model of its workflow.
func (a *auditor) grows(r *fsm.Applied, x *auditFlow, e *rota.Event) {
	g := x.growing[e.Node]
	by := slices.IndexFunc(x.nodes, func(n auditNode) bool { return n.id == e.Node })
	if g == nil || by < 0 || x.nodes[by].state != nodeDone || x.ending != 0 && x.ending < r.Index ||
		x.state != rota.WorkflowRunning {
		a.failf("%s of node %s of workflow %s (%s, ending since %d), which brought %v", e.Kind, e.Node, e.Run, x.state,
			x.ending, g)
		return
	}
	delete(x.growing, e.Node)
	a.Grown += len(g.GetNodes())
	first, inner := len(x.nodes), map[uint32]bool{}
	for i, w := range g.GetNodes() {
		n := auditNode{id: w.GetSpec().GetId(), state: nodeBlocked, spec: &rota.JobSpec{}, by: by + 1}
		steps := w.GetParents()
		if len(steps) == 0 {
			steps = []uint32{0}
		}
		place := uint32(0)
		for _, step := range steps {
			place += step
			if place == 0 {
				n.parents = append(n.parents, uint32(by))
				continue
			}
			n.parents = append(n.parents, uint32(first)+place-1)
			inner[uint32(first)+place-1] = true
		}
		if place > uint32(i) {
			a.failf("child %s of node %s has parent %d", n.id, e.Node, place)
		}
		x.nodes = append(x.nodes, n)
	}
	for i := first; i < len(x.nodes); i++ {
		x.nodes[i].joins = !g.GetDetached() && !inner[uint32(i)]
	}
}

// waits reports whether a node waits for another: a parent, or one that joins a node it waits for.
func (x *auditFlow) waits(n *auditNode, on int) bool {
	if slices.Contains(n.parents, uint32(on)) && n.by != on+1 {
		return true
	}
	other := &x.nodes[on]
	return other.joins && x.waits(n, other.by-1)
}

// grownAll checks that each accepted growth joined its workflow, unless that was ending.
func (a *auditor) grownAll(x *auditFlow) {
	for node := range x.growing {
		if x.ending == 0 && x.state == rota.WorkflowRunning {
			a.failf("workflow %s took the children of its node %s, and has none of them", x.flow.spec.ID, node)
		}
	}
	clear(x.growing)
}
