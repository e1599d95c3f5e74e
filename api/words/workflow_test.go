package words

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func TestWorkflowWords_loseNothing(t *testing.T) {
	t.Parallel()
	roundTrip(t, EdgeToWire, sure(EdgeFromWire))
	roundTrip(t, WorkflowSubmittedToWire, WorkflowSubmittedFromWire)
	roundTrip(t, ParentOutputToWire, ParentOutputFromWire)

	type node struct{ Spec rota.NodeSpec }
	roundTrip(t, func(n *node) *rotav1.NodeSpec {
		n.Spec.JobSpec.ID = "" // users cannot set it
		return NodeSpecToWire(&n.Spec)
	}, func(w *rotav1.NodeSpec) (n node, err error) {
		n.Spec, err = NodeSpecFromWire(w)
		return n, err
	})
	roundTrip(t, SignalToWire, sure(SignalFromWire))
	roundTrip(t, SignalledToWire, SignalledFromWire)
	type header struct{ Spec rota.WorkflowSpec }
	roundTrip(t, func(h *header) *rotav1.WorkflowHeader {
		h.Spec.Nodes, h.Spec.Edges = nil, nil
		return WorkflowHeaderToWire(&h.Spec)
	}, func(w *rotav1.WorkflowHeader) (h header, err error) {
		h.Spec, err = WorkflowHeaderFromWire(w)
		return h, err
	})
	type page struct {
		Page rota.WorkflowPage
		At   rota.ReadAt
	}
	roundTrip(t, func(p *page) *rotav1.ListWorkflowsResponse {
		for i := range p.Page.Workflows {
			p.Page.Workflows[i].Nodes, p.Page.Workflows[i].CriticalPath = nil, nil
		}
		return WorkflowPageToWire(&p.Page, p.At)
	}, func(w *rotav1.ListWorkflowsResponse) (p page, err error) {
		p.Page, p.At, err = WorkflowPageFromWire(w)
		return p, err
	})
	type filter struct {
		Filter rota.WorkflowFilter
		Read   peer.ReadOptions
	}
	roundTrip(t, func(f *filter) *rotav1.ListWorkflowsRequest { return WorkflowFilterToWire(&f.Filter, f.Read) },
		func(w *rotav1.ListWorkflowsRequest) (f filter, err error) {
			f.Filter, f.Read, err = WorkflowFilterFromWire(w)
			return f, err
		})
}

func TestGrowth_losesNothing(t *testing.T) {
	t.Parallel()
	node := rota.NewNodeSpec("b", "work", []byte("x"), "a")
	node.Labels, node.TTL = map[string]string{"k": "v", "a": "b"}, time.Minute
	node.Headers = map[string]string{"traceparent": "00-1"}
	gate := rota.NodeSpec{ID: "g", Gate: &rota.Gate{Timeout: time.Hour, OnTimeout: rota.GateCompletes},
		JobSpec: rota.JobSpec{Priority: rota.DefaultPriority}}
	for _, want := range []*rota.Growth{nil, {Children: []rota.NodeSpec{rota.NewNodeSpec("a", "work", nil), node, gate},
		Detached: true}} {
		b, err := GrowthToWire(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := GrowthFromWire(b)
		if err != nil {
			t.Fatal(err)
		}
		if path := differ(reflect.ValueOf(want), reflect.ValueOf(got), ""); path != "" {
			t.Fatalf("differs at %s:\n want %+v\n got  %+v", path, want, got)
		}
	}
	unknown, _ := proto.Marshal(&rotav1.Children{Nodes: []*rotav1.NodeSpec{{Id: "a"},
		{Id: "b", Gate: &rotav1.Gate{OnTimeout: "sulk"}}}})
	for _, c := range []struct {
		subject  string
		children []byte
	}{{"children", []byte{0}}, {"children", make([]byte, limits.MaxChildrenBytes+1)}, {"children[1].", unknown}} {
		_, err := GrowthFromWire(c.children)
		if e, ok := errors.AsType[*rota.Error](err); !ok || e.Kind != rota.KindInvalid ||
			!strings.HasPrefix(e.Subject, c.subject) {
			t.Fatalf("%s: %v", c.subject, err)
		}
	}
}

func TestWorkflowNodes_loseNothing(t *testing.T) {
	t.Parallel()
	gen := rapid.MakeCustom[[]rota.WorkflowNode](anyWords())
	rapid.Check(t, func(t *rapid.T) {
		want := gen.Draw(t, "nodes")
		for i := range want {
			n := &want[i]
			n.ID = fmt.Sprint("n", i)
			n.Job = rota.NodeJobID("w", n.ID)
			if n.GrownBy != "" {
				n.GrownBy = fmt.Sprint("n", rapid.IntRange(0, len(want)-1).Draw(t, "grower"))
			}
			for k := range n.Parents {
				n.Parents[k] = fmt.Sprint("n", rapid.IntRange(0, len(want)-1).Draw(t, "parent"))
			}
		}
		numbers, wire := NumberNodes(want), make([]*rotav1.WorkflowNode, len(want))
		for i := range want {
			node, err := WorkflowNodeToWire(&want[i], numbers)
			if err != nil {
				t.Fatal(err)
			}
			wire[i] = sent(t, node)
		}
		got, err := WorkflowNodesFromWire(wire, "w")
		if err != nil {
			t.Fatal(err)
		}
		if path := differ(reflect.ValueOf(want), reflect.ValueOf(got), ""); path != "" {
			t.Fatalf("differs at %s:\n want %+v\n got  %+v", path, want, got)
		}
	})
}

func TestWorkflowWords_refuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	errOf := func(_ any, err error) error { return err }
	_, _, filterErr := WorkflowFilterFromWire(&rotav1.ListWorkflowsRequest{State: "PAUSED"})
	for name, err := range map[string]error{
		"state":          errOf(WorkflowFromWire(&rotav1.Workflow{State: "PAUSED"})),
		"ending":         errOf(WorkflowFromWire(&rotav1.Workflow{Ending: "PAUSED"})),
		"policy":         errOf(WorkflowFromWire(&rotav1.Workflow{OnFailure: "panic"})),
		"reason":         errOf(WorkflowFromWire(&rotav1.Workflow{Reason: "?"})),
		"header":         errOf(WorkflowHeaderFromWire(&rotav1.WorkflowHeader{OnFailure: "panic"})),
		"outcome":        errOf(WorkflowSubmittedFromWire(&rotav1.WorkflowSubmitted{State: "PAUSED"})),
		"node's state":   errOf(WorkflowNodesFromWire([]*rotav1.WorkflowNode{{State: "LOST"}}, "w")),
		"node's reason":  errOf(WorkflowNodesFromWire([]*rotav1.WorkflowNode{{Reason: "?"}}, "w")),
		"filter's state": filterErr,
	} {
		if rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%s: got %v, want kind Invalid", name, err)
		}
	}
	if _, err := WorkflowNodesFromWire([]*rotav1.WorkflowNode{{Parents: []uint32{1}}},
		"w"); rota.KindOf(err) != rota.KindInternal {
		t.Errorf("a parent that is not there: %v", err)
	}
	if _, err := WorkflowNodeToWire(&rota.WorkflowNode{Parents: []string{"x"}},
		nil); rota.KindOf(err) != rota.KindInternal {
		t.Errorf("a parent that is not there, to wire: %v", err)
	}
}

// TestWorkflowDefaults checks that a node gets the default priority of a job, and that a root has a list of parents, so
// that JSON shows [].
func TestWorkflowDefaults(t *testing.T) {
	t.Parallel()
	if n, err := NodeSpecFromWire(&rotav1.NodeSpec{Job: &rotav1.JobSpec{}}); err != nil ||
		n.Priority != rota.DefaultPriority {
		t.Errorf("priority is %d, %v", n.Priority, err)
	}
	nodes, err := WorkflowNodesFromWire([]*rotav1.WorkflowNode{{Id: "a"}}, "w")
	if err != nil || nodes[0].Parents == nil || nodes[0].Job != "w/a" {
		t.Errorf("got %+v, %v", nodes, err)
	}
}

// The largest lists must fit in one message: a node with all others as parents, and a critical path through all nodes.
func TestNumbers_fitIntoAMessage(t *testing.T) {
	t.Parallel()
	all := make([]uint32, rota.MaxWorkflowNodes)
	for i := range all {
		all[i] = uint32(i)
	}
	for name, m := range map[string]proto.Message{
		"node": &rotav1.WorkflowNode{Parents: all}, "path": &rotav1.ShowWorkflowResponse{CriticalPath: all},
	} {
		if n := proto.Size(m); n > limits.MaxMessageBytes/2 {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
}
