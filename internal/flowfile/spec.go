package flowfile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/nearest"
)

// flowReader makes a workflow of a file's parts and gathers its faults.
type flowReader struct {
	parts  *flowParts
	spec   rota.WorkflowSpec
	faults []flowFault
	// lines of the nodes by id.
	lines map[string]int
}

// flowFault is one fault; line is 0 where none is to blame.
type flowFault struct {
	line int
	text string
}

// refuse notes a fault.
func (r *flowReader) refuse(line int, format string, args ...any) {
	r.faults = append(r.faults, flowFault{line, fmt.Sprintf(format, args...)})
}

// verdict returns the faults in the file's order.
func (r *flowReader) verdict() error {
	slices.SortStableFunc(r.faults, func(a, b flowFault) int { return cmp.Compare(a.line, b.line) })
	var told Faults
	for _, f := range r.faults {
		if f.line > 0 {
			f.text = fmt.Sprintf("line %d: %s", f.line, f.text)
		}
		told = append(told, f.text)
	}
	if told == nil {
		return nil
	}
	return told
}

func (r *flowReader) full() bool { return len(r.faults) >= MaxFaults }

// spec makes the workflow. Every node starts from the file's defaults and priority
// 5. Whether the graph has a cycle is judged later, once flags have had their say.
func (p *flowParts) spec() (rota.WorkflowSpec, error) {
	r := &flowReader{parts: p, lines: make(map[string]int, len(p.nodes))}
	r.head()
	if len(p.nodes) == 0 {
		r.refuse(p.fields["nodes"].line, `a workflow has one node at least: "nodes": [{"id": …, "type": …}]`)
	}
	for _, part := range p.nodes {
		if r.full() {
			break
		}
		r.node(part)
	}
	if !r.full() {
		r.parents()
	}
	for _, part := range p.edges {
		if r.full() {
			break
		}
		r.edge(part)
	}
	return r.spec, r.verdict()
}

// head reads the fields other than nodes and edges.
func (r *flowReader) head() {
	into := map[string]any{"id": &r.spec.ID, "queue": &r.spec.Queue, "tenant": &r.spec.Tenant,
		"on_failure": &r.spec.OnFailure, "labels": &r.spec.Labels}
	for _, key := range r.parts.keys {
		part := r.parts.fields[key]
		switch target, known := into[key]; {
		case key == "defaults":
			r.defaults(part)
		case !known:
			r.refuse(part.line, "unknown field %q%s", key, cmp.Or(meantField(key),
				": a workflow has id, queue, tenant, on_failure, labels, defaults, nodes and edges"))
		default:
			if err := strictly(part.text, target); err != nil {
				r.refuse(part.line, "%s: %v", key, err)
			}
		}
	}
}

// defaults checks the object that every node starts from.
func (r *flowReader) defaults(part flowPart) {
	if string(part.text) == "null" {
		return
	}
	d := rota.NewNodeSpec("", "", nil)
	if err := strictly(part.text, &d); err != nil {
		r.refuse(part.line, "defaults: %v", err)
		return
	}
	if d.ID != "" || len(d.Parents) > 0 || d.Queue != "" || d.Tenant != "" {
		r.refuse(part.line, "defaults must not have id or parents; set queue and tenant next to defaults, "+
			"for the whole workflow")
	}
}

// node reads one node.
func (r *flowReader) node(part flowPart) {
	place := len(r.spec.Nodes)
	if part.text[0] != '{' {
		r.refuse(part.line, "node %d: want an object {\"id\": …, \"type\": …}", place+1)
		r.spec.Nodes = append(r.spec.Nodes, rota.NodeSpec{})
		return
	}
	n := rota.NewNodeSpec("", "", nil)
	if defaults := r.parts.fields["defaults"]; defaults.text != nil {
		_ = strictly(defaults.text, &n.JobSpec) // reported once, at the defaults
	}
	err := strictly(part.text, &n)
	if err == nil && n.Gate != nil { // a gate is not a job: the defaults of jobs do not apply to it
		n = rota.NewNodeSpec("", "", nil)
		err = strictly(part.text, &n)
	}
	r.spec.Nodes = append(r.spec.Nodes, n)
	name := fmt.Sprintf("node %d", place+1)
	if n.ID != "" {
		name = fmt.Sprintf("node %q", head(n.ID))
	}
	if err == nil {
		err = r.check(&n)
	}
	first, twice := r.lines[n.ID]
	if !twice && n.ID != "" {
		r.lines[n.ID] = part.line // one with a fault is there, too
	}
	switch {
	case err != nil:
		r.refuse(part.line, "%s: %v", name, err)
	case twice:
		r.refuse(part.line, "duplicate %s: first in line %d", name, first)
	}
}

// check refuses a node whose fields are out of range.
func (r *flowReader) check(n *rota.NodeSpec) error {
	if n.ID == "" {
		return fmt.Errorf("id is missing")
	}
	if err := rota.CheckNodeID("id", n.ID); err != nil {
		return err
	}
	if n.Type == "" && n.Gate == nil {
		return fmt.Errorf("type is missing: it selects the handler that runs the job (defaults can set one for all)")
	}
	if n.Tenant != "" && n.Tenant != r.spec.Tenant {
		return fmt.Errorf("tenant %q is refused: all nodes have the workflow's tenant", n.Tenant)
	}
	shape := *n
	shape.Queue, shape.Tenant = cmp.Or(n.Queue, rota.DefaultQueue), rota.DefaultTenant
	return shape.CheckTemplate(rota.MaxPayloadBytes)
}

// parents refuses parents that are not there.
func (r *flowReader) parents() {
	for i := range r.spec.Nodes {
		n := &r.spec.Nodes[i]
		for _, p := range n.Parents {
			if r.full() {
				return
			}
			if _, ok := r.lines[p]; !ok {
				r.refuse(r.parts.nodes[i].line, "node %q: parent %q is not a node of this workflow%s", head(n.ID),
					head(p), r.meant(p))
			}
		}
	}
}

// edge reads one edge.
func (r *flowReader) edge(part flowPart) {
	var e rota.Edge
	if err := strictly(part.text, &e); err != nil {
		r.refuse(part.line, "edge: %v", err)
		return
	}
	for _, end := range []struct{ name, id string }{{"from", e.From}, {"to", e.To}} {
		if _, ok := r.lines[end.id]; !ok {
			r.refuse(part.line, "edge %q → %q: %s is not a node of this workflow%s", head(e.From), head(e.To), end.name,
				r.meant(end.id))
			return
		}
	}
	r.spec.Edges = append(r.spec.Edges, e)
}

// meant names a node whose id is almost the one that was not found.
func (r *flowReader) meant(id string) string {
	names := make([]string, len(r.spec.Nodes))
	for i := range r.spec.Nodes {
		names[i] = r.spec.Nodes[i].ID
	}
	return nearest.Question(id, names)
}
