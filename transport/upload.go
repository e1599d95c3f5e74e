package transport

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

const (
	// uploadsBytes is roughly the memory that all workflows arriving at a node may use together: the largest uses half
	// of it.
	uploadsBytes = 512 << 20
	// maxJobBytes bounds the bytes that nodes' jobs take on the wire. It is not a second limit: jobs within
	// rota.MaxWorkflowBytes, which are counted once all have arrived, take less.
	maxJobBytes = 2 * rota.MaxWorkflowBytes
	// nodeBytes, listBytes and edgeBytes are roughly the memory that a node, a word in one of its lists and an edge use
	// besides the bytes of their texts.
	nodeBytes, listBytes, edgeBytes = 600, 16, 2 * 16
)

// errUploadOver is the error for a late reader whose stream has no receiver any longer.
var errUploadOver = errors.New("the upload is over")

// upload is a workflow that is arriving. The memory it holds is bounded at every message (SPEC §11.1). Everything else
// about a workflow, such as cycles, is checked once it is complete, by rota.WorkflowSpec.Arrange.
type upload struct {
	server *Server
	spec   rota.WorkflowSpec
	begun  bool
	// names holds each node's id once, because edges repeat them.
	names map[string]string
	// parents counts the parents listed by nodes, jobs the bytes of their jobs on the wire, listed the words in the
	// jobs' lists.
	parents, jobs, listed int64

	mu    sync.Mutex
	taken int64
	over  bool
}

func newUpload(s *Server) *upload { return &upload{server: s, names: make(map[string]string)} }

// close releases the memory reserved for the upload.
func (u *upload) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	u.server.uploads.give(u.taken)
}

func (u *upload) hold(n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.over:
		return errUploadOver
	case !u.server.uploads.take(n):
		return u.server.busy("takes in other workflows")
	}
	u.taken += n
	return nil
}

// add adds one message.
func (u *upload) add(m *rotav1.SubmitWorkflowRequest) error {
	if err := u.header(m); err != nil {
		return err
	}
	before := u.size()
	for _, n := range m.GetNodes() {
		if err := u.node(n); err != nil {
			return err
		}
	}
	for _, e := range m.GetEdges() {
		if err := u.edge(e); err != nil {
			return err
		}
	}
	return u.hold(u.size() - before)
}

// size returns roughly the bytes that are kept.
func (u *upload) size() int64 {
	return u.jobs + u.listed*listBytes + int64(len(u.spec.Nodes))*nodeBytes + int64(len(
		u.names))*rota.MaxNodeIDBytes/2 +
		u.parents*edgeBytes/2 + int64(len(u.spec.Edges))*edgeBytes
}

func (u *upload) header(m *rotav1.SubmitWorkflowRequest) error {
	header := m.GetWorkflow()
	switch {
	case !u.begun && header == nil:
		return rota.Refusef(rota.KindInvalid, "workflow",
			"the first message has no header: send the workflow's header first")
	case u.begun && header != nil:
		return rota.Refusef(rota.KindInvalid, "workflow", "duplicate header: a stream carries exactly one workflow")
	case u.begun && len(m.GetNodes()) == 0 && len(m.GetEdges()) == 0:
		return rota.Refusef(rota.KindInvalid, "nodes", "a message has neither nodes nor edges: end the stream instead")
	case u.begun:
		return nil
	}
	u.begun = true
	var err error
	if u.spec, err = words.WorkflowHeaderFromWire(header); err != nil {
		return err
	}
	return rota.CheckID("id", u.spec.ID)
}

func (u *upload) node(w *rotav1.NodeSpec) error {
	at := len(u.spec.Nodes)
	if at == rota.MaxWorkflowNodes {
		return rota.Refusef(rota.KindInvalid, "nodes", "too many nodes: maximum %d", rota.MaxWorkflowNodes)
	}
	n, err := words.NodeSpecFromWire(w)
	if err != nil {
		return rota.Refusef(rota.KindInvalid, fmt.Sprintf("nodes[%d].gate", at), "nodes[%d].gate: %v", at, err)
	}
	if n.ID, err = u.name(n.ID, "nodes[%d].id", at); err != nil {
		return err
	}
	if n.JobSpec.ID != "" {
		return rota.Refusef(rota.KindInvalid, fmt.Sprintf("nodes[%d].job.id", at),
			"node %q has a job id: omit it, the id is made of the workflow's and the node's", n.ID)
	}
	n.Minted = false
	if u.parents += int64(len(n.Parents)); u.parents > rota.MaxWorkflowEdges {
		return tooManyEdges()
	}
	for i, parent := range n.Parents {
		if n.Parents[i], err = u.name(parent, "nodes[%d].parents[%d]", at, i); err != nil {
			return err
		}
	}
	if err := u.template(at, &n); err != nil {
		return err
	}
	u.listed += int64(len(n.Requires) + len(n.RegionsAllow) + len(n.RegionsDeny) + len(n.DataKeys) + len(
		n.Keys) + 4*len(n.Labels) + 4*len(n.Headers) + 4*len(n.Limits))
	if u.jobs += int64(proto.Size(w.GetJob())); u.jobs > maxJobBytes {
		return rota.Refusef(rota.KindInvalid, "nodes",
			"nodes too long: got more than %d bytes, maximum %d; store large data elsewhere and name it in payloads",
			maxJobBytes, rota.MaxWorkflowBytes)
	}
	u.spec.Nodes = append(u.spec.Nodes, n)
	return nil
}

// template rejects a job with fields out of range before it is kept, because the fields determine how much a node
// stores. The queue and the tenant that it leaves open are filled in later.
func (u *upload) template(at int, n *rota.NodeSpec) error {
	filled := *n
	filled.Queue = cmp.Or(n.Queue, u.spec.Queue, rota.DefaultQueue)
	filled.Tenant = cmp.Or(n.Tenant, u.spec.Tenant, rota.DefaultTenant)
	var e *rota.Error
	if errors.As(filled.CheckTemplate(rota.MaxPayloadBytes), &e) {
		return rota.Refusef(e.Kind, fmt.Sprintf("nodes[%d].%s", at, e.Subject), "node %q (nodes[%d]): %s", n.ID, at,
			e.Text)
	}
	return nil
}

func (u *upload) edge(w *rotav1.Edge) error {
	at := len(u.spec.Edges)
	if at == rota.MaxWorkflowEdges {
		return tooManyEdges()
	}
	e := words.EdgeFromWire(w)
	var err error
	if e.From, err = u.name(e.From, "edges[%d].from", at); err != nil {
		return err
	}
	if e.To, err = u.name(e.To, "edges[%d].to", at); err != nil {
		return err
	}
	u.spec.Edges = append(u.spec.Edges, e)
	return nil
}

func tooManyEdges() error {
	return rota.Refusef(rota.KindInvalid, "edges", "too many edges: maximum %d", rota.MaxWorkflowEdges)
}

// name returns the one copy of a node's id; field and at give its position for errors.
func (u *upload) name(id, field string, at ...any) (string, error) {
	if known, ok := u.names[id]; ok {
		return known, nil
	}
	field = fmt.Sprintf(field, at...)
	if err := rota.CheckNodeID(field, id); err != nil {
		return "", err
	}
	if len(u.names) == rota.MaxWorkflowNodes {
		return "", rota.Refusef(rota.KindInvalid, field,
			"too many nodes: %s %q is a new name, and nodes and edges may name at most %d", field, id,
			rota.MaxWorkflowNodes)
	}
	u.names[id] = id
	return id, nil
}

// complete checks the workflow once the stream has ended.
func (u *upload) complete() error {
	switch {
	case !u.begun:
		return rota.Refusef(rota.KindInvalid, "workflow", "the stream ended before a workflow's header")
	case len(u.spec.Nodes) == 0:
		return rota.Refusef(rota.KindInvalid, "nodes", "nodes: got 0, want 1 to %d", rota.MaxWorkflowNodes)
	}
	return nil
}
