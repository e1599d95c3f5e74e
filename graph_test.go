package rota

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// flow returns a workflow of nodes "a", "b:a" (its parent a), "c:a,b".
func flow(nodes ...string) *WorkflowSpec {
	w := &WorkflowSpec{ID: "w"}
	for _, text := range nodes {
		id, parents, _ := strings.Cut(text, ":")
		n := NodeSpec{ID: id, JobSpec: JobSpec{Type: "echo", Priority: DefaultPriority}}
		if parents != "" {
			n.Parents = strings.Split(parents, ",")
		}
		w.Nodes = append(w.Nodes, n)
	}
	return w
}

func TestArrange(t *testing.T) {
	t.Parallel()
	w := flow("d:b,c,b", "c:a", "b:a", "a", "z")
	w.Edges = []Edge{{"a", "d"}, {"b", "d"}}
	w.Queue = "q"
	w.Nodes[4].Queue = "own"
	g, err := w.Arrange()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, place := range g.Order {
		ids = append(ids, w.Nodes[place].ID)
	}
	// a and z are ready at first; a's children come before z in the submission.
	if got := strings.Join(ids, " "); got != "a c b d z" {
		t.Errorf("order %s", got)
	}
	if got := fmt.Sprint(g.Parents); got != "[[] [0] [0] [0 1 2] []]" || g.Edges != 5 {
		t.Errorf("parents %s, %d edges", got, g.Edges)
	}
	if w.Nodes[0].Queue != "q" || w.Nodes[4].Queue != "own" || w.Nodes[0].Tenant != DefaultTenant ||
		w.Tenant != DefaultTenant {
		t.Errorf("filled in as %q, %q, %q, %q", w.Nodes[0].Queue, w.Nodes[4].Queue, w.Nodes[0].Tenant, w.Tenant)
	}
	again, err := w.Arrange()
	if err != nil || fmt.Sprint(again) != fmt.Sprint(g) {
		t.Errorf("the second time %v, %v", again, err)
	}
}

func TestArrangeRefuses(t *testing.T) {
	t.Parallel()
	long := make([]string, 30)
	for i := range long {
		long[i] = fmt.Sprintf("n%d:n%d", i, (i+29)%30)
	}
	with := func(w *WorkflowSpec, change func(w *WorkflowSpec)) *WorkflowSpec {
		change(w)
		return w
	}
	for name, c := range map[string]struct {
		w       *WorkflowSpec
		subject string
		texts   []string
	}{
		"no_nodes":   {flow(), "nodes", []string{"nodes: got 0, want 1 to 100000"}},
		"no_id":      {with(flow("a"), func(w *WorkflowSpec) { w.ID = "" }), "id", nil},
		"bad_queue":  {with(flow("a"), func(w *WorkflowSpec) { w.Queue = "a b" }), "queue", nil},
		"bad_tenant": {with(flow("a"), func(w *WorkflowSpec) { w.Tenant = "a/b" }), "tenant", nil},
		"bad_policy": {with(flow("a"), func(w *WorkflowSpec) { w.OnFailure = 7 }), "on_failure",
			[]string{"fail_fast, continue"}},
		"bad_labels": {with(flow("a"), func(w *WorkflowSpec) { w.Labels = map[string]string{"a b": ""} }), "labels",
			nil}, "bad_node_id": {flow("a", "b c"), "nodes[1].id", []string{`"b c"`}},
		"twice":     {flow("a", "b", "x", "a"), "nodes[3].id", []string{"nodes[0] and nodes[3]", `"a"`}},
		"no_parent": {flow("a", "b:a,x"), "nodes[1].parents[1]", []string{`node "b" (nodes[1])`, `"x"`}},
		"no_from": {with(flow("a"), func(w *WorkflowSpec) { w.Edges = []Edge{{"x", "a"}} }), "edges[0].from",
			[]string{`"x"`}},
		"no_to": {with(flow("a"), func(w *WorkflowSpec) { w.Edges = []Edge{{"a", "a"}, {"a", "y"}} }),
			"edges[1].to", []string{`"y"`}},
		"own_parent": {flow("a", "b:b"), "nodes[1].parents", []string{`node "b" (nodes[1]) is its own parent`}},
		"own_edge": {with(flow("a"), func(w *WorkflowSpec) { w.Edges = []Edge{{"a", "a"}} }), "nodes[0].parents",
			nil}, "bad_type": {with(flow("a", "b"), func(w *WorkflowSpec) { w.Nodes[1].Type = "" }), "nodes[1].type",
			[]string{`node "b" (nodes[1]): type`}},
		"other_tenant": {with(flow("a"), func(w *WorkflowSpec) { w.Nodes[0].Tenant = "other" }), "nodes[0].tenant",
			[]string{`"other"`}},
		"too_many_bytes": {with(flow(slices.Repeat([]string{"a"}, 300)...), func(w *WorkflowSpec) {
			for i := range w.Nodes {
				w.Nodes[i].Payload = make([]byte, MaxPayloadBytes)
			}
		}), "nodes", []string{"67108864"}},
		"a_ring":        {flow("z", "a:z,c", "b:a", "c:b", "d:c"), "edges", []string{"a → b → c → a;"}},
		"the_short_way": {flow("a:c", "b:a", "c:b,a", "e:a"), "edges", []string{"a → c → a;"}},
		"a_long_ring":   {flow(long...), "edges", []string{"n0 → n1 → ", " → n19 → … (30 nodes) → n0;"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := c.w.Arrange()
			var e *Error
			if !errors.As(err, &e) || g != nil || e.Kind != KindInvalid || e.Subject != c.subject {
				t.Fatalf("%v, %v: INVALID about %s wanted", g, err, c.subject)
			}
			for _, text := range c.texts {
				if !strings.Contains(e.Text, text) {
					t.Errorf("%q does not say %q", e.Text, text)
				}
			}
		})
	}
}

func TestArrangeLimits(t *testing.T) {
	t.Parallel()
	most := &WorkflowSpec{ID: "w", Nodes: make([]NodeSpec, MaxWorkflowNodes+1)}
	for i := range most.Nodes {
		most.Nodes[i] = NodeSpec{ID: fmt.Sprint("n", i), JobSpec: JobSpec{Type: "echo"}}
	}
	if _, err := most.Arrange(); KindOf(err) != KindInvalid {
		t.Errorf("%d nodes: %v", len(most.Nodes), err)
	}
	most.Nodes = most.Nodes[:MaxWorkflowNodes]
	// This is a chain over all nodes, listed from its end: as deep as allowed. Then come the maximum number of edges,
	// listed twice, and one more.
	for i := range most.Nodes[:MaxWorkflowNodes-1] {
		most.Nodes[i].Parents = []string{fmt.Sprint("n", i+1)}
	}
	for i := 0; len(most.Edges) < MaxWorkflowEdges-(MaxWorkflowNodes-1); i++ {
		most.Edges = append(most.Edges, Edge{fmt.Sprint("n", i/50+2+i%50), fmt.Sprint("n", i/50)})
	}
	most.Edges = append(most.Edges, most.Edges...)
	begun := time.Now()
	g, err := most.Arrange()
	if err != nil || g.Edges != MaxWorkflowEdges || g.Order[0] != MaxWorkflowNodes-1 {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d edges reported as %d: %v", len(g.Order), g.Edges, len(most.Edges)+MaxWorkflowNodes-1,
		time.Since(begun))
	most.Edges = append(most.Edges, Edge{fmt.Sprint("n", MaxWorkflowNodes-1), "n0"})
	if _, err := most.Arrange(); KindOf(err) != KindInvalid ||
		!strings.Contains(err.Error(), "too many edges: got 1000001") {
		t.Errorf("one edge more: %v", err)
	}
	most.Edges = []Edge{{"n0", fmt.Sprint("n", MaxWorkflowNodes-1)}}
	if _, err := most.Arrange(); KindOf(err) != KindInvalid || !strings.Contains(err.Error(), "(100000 nodes)") {
		t.Errorf("a ring of all: %v", err)
	}
}

// naiveOrder repeatedly takes the first node whose parents are all placed; it returns nil if no such node is left.
func naiveOrder(n int, edges map[[2]int]bool) []int {
	var order []int
	for len(order) < n {
		next := -1
		for i := 0; i < n && next < 0; i++ {
			ready := !slices.Contains(order, i)
			for j := range n {
				ready = ready && (!edges[[2]int{j, i}] || slices.Contains(order, j))
			}
			if ready {
				next = i
			}
		}
		if next < 0 {
			return nil
		}
		order = append(order, next)
	}
	return order
}

// checkArrange compares Arrange with the naive order, or checks its error against the edges.
func checkArrange(t interface{ Fatalf(string, ...any) }, w *WorkflowSpec, edges map[[2]int]bool) {
	n := len(w.Nodes)
	g, err := w.Arrange()
	want := naiveOrder(n, edges)
	if err != nil {
		if want != nil {
			t.Fatalf("%v, though there is the order %v", err, want)
		}
		checkCycle(t, err, edges)
		return
	}
	if !slices.Equal(g.Order, want) || g.Edges != len(edges) {
		t.Fatalf("order %v of %d edges, want %v of %d", g.Order, g.Edges, want, len(edges))
	}
	told := 0
	for number, parents := range g.Parents {
		for i, parent := range parents {
			if i > 0 && parents[i-1] >= parent || int(parent) >= number ||
				!edges[[2]int{g.Order[parent], g.Order[number]}] {
				t.Fatalf("node %d has parents %v", number, parents)
			}
			told++
		}
	}
	if told != len(edges) {
		t.Fatalf("%d edges of %d reported", told, len(edges))
	}
}

// checkCycle reads the cycle that an error names: each step is an edge, and no node appears twice.
func checkCycle(t interface{ Fatalf(string, ...any) }, err error, edges map[[2]int]bool) {
	text := err.Error()
	if strings.Contains(text, "is its own parent") {
		return
	}
	text, _, found := strings.Cut(strings.TrimPrefix(text, "the workflow has a cycle: "), ";")
	names := strings.Split(text, " → ")
	if !found || len(names) < 3 || names[0] != names[len(names)-1] {
		t.Fatalf("no cycle in %v", err)
	}
	seen := map[string]bool{}
	for i, name := range names[1:] {
		var from, to int
		if _, err := fmt.Sscanf(names[i]+" "+name, "n%d n%d", &from, &to); err != nil || !edges[[2]int{from, to}] ||
			seen[name] {
			t.Fatalf("%s is not a cycle at %s", text, name)
		}
		seen[name] = true
	}
}

// TestArrangeRandom compares workflows with and without cycles with the naive order.
func TestArrangeRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 14).Draw(t, "nodes")
		acyclic := rapid.Bool().Draw(t, "acyclic")
		rank := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				yield(i)
			}
		})).Draw(t, "rank")
		w, edges := &WorkflowSpec{ID: "w", Nodes: make([]NodeSpec, n)}, map[[2]int]bool{}
		for i := range n {
			w.Nodes[i] = NodeSpec{ID: fmt.Sprint("n", i), JobSpec: JobSpec{Type: "echo"}}
		}
		for range rapid.IntRange(0, 2*n).Draw(t, "edges") {
			from, to := rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")
			if from == to {
				continue
			}
			if acyclic && rank[from] > rank[to] {
				from, to = to, from
			}
			edges[[2]int{from, to}] = true
			if rapid.Bool().Draw(t, "parallel") {
				w.Edges = append(w.Edges, Edge{fmt.Sprint("n", from), fmt.Sprint("n", to)})
			} else {
				w.Nodes[to].Parents = append(w.Nodes[to].Parents, fmt.Sprint("n", from))
			}
		}
		checkArrange(t, w, edges)
	})
}

// FuzzArrange reads a workflow from bytes: it is arranged in the naive order, or rejected.
func FuzzArrange(f *testing.F) {
	f.Add([]byte{3, 0, 1, 1, 2})
	f.Add([]byte{3, 0, 1, 1, 2, 2, 0})
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > 200 {
			return
		}
		n := int(data[0] % 24)
		w, edges := &WorkflowSpec{ID: "w", Nodes: make([]NodeSpec, n)}, map[[2]int]bool{}
		for i := range n {
			w.Nodes[i] = NodeSpec{ID: fmt.Sprint("n", i), JobSpec: JobSpec{Type: "echo"}}
		}
		known := true
		for rest := data[1:]; len(rest) >= 2; rest = rest[2:] {
			from, to := int(rest[0]%32), int(rest[1]%32)
			known = known && from < n && to < n
			edges[[2]int{from, to}] = true
			if rest[0] >= 128 && to < n {
				w.Nodes[to].Parents = append(w.Nodes[to].Parents, fmt.Sprint("n", from))
			} else {
				w.Edges = append(w.Edges, Edge{fmt.Sprint("n", from), fmt.Sprint("n", to)})
			}
		}
		if n == 0 || !known {
			if g, err := w.Arrange(); KindOf(err) != KindInvalid || g != nil {
				t.Fatalf("%v, %v: refusal wanted", g, err)
			}
			return
		}
		checkArrange(t, w, edges)
	})
}

func BenchmarkArrange(b *testing.B) {
	w := &WorkflowSpec{ID: "w", Nodes: make([]NodeSpec, MaxWorkflowNodes)}
	for i := range w.Nodes {
		w.Nodes[i] = NodeSpec{ID: fmt.Sprint("node-", i), JobSpec: JobSpec{Type: "echo"}}
		for j := 1; j <= 10 && i >= 10; j++ {
			w.Nodes[i].Parents = append(w.Nodes[i].Parents, fmt.Sprint("node-", i-j*(i/10)))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Arrange(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNewNodeSpec(t *testing.T) {
	t.Parallel()
	w := WorkflowSpec{ID: "w", Queue: "q", Tenant: "t", Nodes: []NodeSpec{
		NewNodeSpec("a", "work", []byte("x")), NewNodeSpec("b", "work", nil, "a"),
		{ID: "c", JobSpec: NewJobSpec("work", nil)}, // names DefaultQueue
	}}
	g, err := w.Arrange()
	if err != nil || g.Edges != 1 {
		t.Fatal(g, err)
	}
	for i, want := range []QueueName{"q", "q", DefaultQueue} {
		if n := w.Nodes[i]; n.Queue != want || n.Tenant != "t" || n.Priority != DefaultPriority || n.Type != "work" {
			t.Errorf("node %d is %+v, its queue should be %s", i, n, want)
		}
	}
}
