package entry

import (
	"maps"
	"math"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"google.golang.org/protobuf/proto"
)

// chunkBytes is the approximate size limit of one operation that adds nodes: half of an entry, so that others have room
// next to it. A single node may be bigger.
const chunkBytes = 256 << 10

// maxShares is the maximum number of queues listed in an announcement; the nodes of a workflow over more queues are
// counted as they arrive.
const maxShares = 256

// Template returns a node's spec in the form of the log: with its id within the workflow, its queue filled in, and no
// tenant, as that is the workflow's.
func Template(w *rota.WorkflowSpec, n *rota.NodeSpec) rota.JobSpec {
	s := n.JobSpec
	s.ID, s.Tenant = rota.JobID(n.ID), ""
	if s.Queue == "" {
		s.Queue = WorkflowQueue(w)
	}
	if n.Gate != nil && s.Type == "" {
		s.Type = rota.GateType
	}
	return s
}

// WorkflowQueue returns the queue of the nodes that name none.
func WorkflowQueue(w *rota.WorkflowSpec) rota.QueueName {
	if w.Queue == "" {
		return rota.DefaultQueue
	}
	return w.Queue
}

// WorkflowTenant returns the tenant that a workflow belongs to.
func WorkflowTenant(w *rota.WorkflowSpec) rota.TenantID {
	if w.Tenant == "" {
		return rota.DefaultTenant
	}
	return w.Tenant
}

// OpenWorkflowOp returns the operation that announces a workflow.
func OpenWorkflowOp(w *rota.WorkflowSpec, g *rota.Graph, content [16]byte) *fsmpb.Op {
	op := &fsmpb.OpenWorkflow{Id: string(w.ID), Queue: string(WorkflowQueue(w)), Tenant: string(WorkflowTenant(w)),
		OnFailure: uint32(w.OnFailure), Content: content[:], Nodes: uint32(len(g.Order)), Edges: uint64(g.Edges),
		Priority: rota.MaxPriority}
	for _, k := range slices.Sorted(maps.Keys(w.Labels)) {
		op.Labels = append(op.Labels, &fsmpb.Label{Key: k, Value: w.Labels[k]})
	}
	shares := make(map[rota.QueueName]uint32)
	for k, at := range g.Order {
		n := &w.Nodes[at]
		if len(g.Parents[k]) == 0 {
			op.Priority = min(op.Priority, n.Priority)
		}
		if n.Queue == "" {
			shares[WorkflowQueue(w)]++
		} else {
			shares[n.Queue]++
		}
	}
	if len(shares) <= maxShares {
		for _, q := range slices.Sorted(maps.Keys(shares)) {
			op.Shares = append(op.Shares, &fsmpb.QueueShare{Queue: string(q), Nodes: shares[q]})
		}
	}
	return &fsmpb.Op{Op: &fsmpb.Op_OpenWorkflow{OpenWorkflow: op}}
}

// AddNodesOps returns the operations that add the nodes from a number on, in chunks: each of at most MaxChunkNodes
// nodes and, except for a single bigger node, 256 KiB.
func AddNodesOps(w *rota.WorkflowSpec, g *rota.Graph, content [16]byte, from uint32) (ops []*fsmpb.Op) {
	var chunk *fsmpb.AddNodes
	size := 0
	for k := int(from); k < len(g.Order); k++ {
		s := Template(w, &w.Nodes[g.Order[k]])
		n := &fsmpb.WorkflowNode{Spec: SpecOp(&s), Parents: parentSteps(g.Parents[k]),
			Gate: GateOp(w.Nodes[g.Order[k]].Gate),
			Run:  uint32(w.Nodes[g.Order[k]].Run)}
		bytes := proto.Size(n) + 8 // plus its tag and length
		if chunk == nil || len(chunk.Nodes) >= limits.MaxChunkNodes || size+bytes > chunkBytes {
			chunk = &fsmpb.AddNodes{Workflow: string(w.ID), Content: content[:], First: uint32(k)}
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_AddNodes{AddNodes: chunk}})
			size = 0
		}
		chunk.Nodes = append(chunk.Nodes, n)
		size += bytes
	}
	return ops
}

// growthBytes returns what the completion of a node adds to its workflow, as a lease's operation carries it; nil for
// nothing. A missing parent becomes one that no machine accepts.
func growthBytes(g *rota.Growth, node string) []byte {
	if g == nil {
		return nil
	}
	op := &fsmpb.Growth{Detached: g.Detached}
	places := map[string]uint32{node: 0}
	for i := range g.Children {
		n := &g.Children[i]
		s := n.JobSpec
		s.ID = rota.JobID(n.ID)
		parents := make([]uint32, len(n.Parents))
		for k, id := range n.Parents {
			place, known := places[id]
			if parents[k] = place; !known {
				parents[k] = rota.MaxWorkflowNodes
			}
		}
		slices.Sort(parents)
		op.Nodes = append(op.Nodes, &fsmpb.WorkflowNode{Spec: SpecOp(&s), Parents: parentSteps(slices.Compact(parents)),
			Gate: GateOp(n.Gate),
			Run:  uint32(n.Run)})
		if _, twice := places[n.ID]; !twice {
			places[n.ID] = uint32(i + 1)
		}
	}
	b, err := proto.Marshal(op)
	if err != nil { // a text is not UTF-8: no machine reads it
		return []byte{0}
	}
	return b
}

// GateOp returns a gate in the form of the log, nil if g is nil.
func GateOp(g *rota.Gate) *fsmpb.Gate {
	if g == nil {
		return nil
	}
	return &fsmpb.Gate{TimeoutMs: g.Timeout.Milliseconds(), OnTimeout: uint32(g.OnTimeout)}
}

// GateWords is the inverse of GateOp. Values out of bounds are kept.
func GateWords(g *fsmpb.Gate) *rota.Gate {
	if g == nil {
		return nil
	}
	return &rota.Gate{Timeout: millis.Duration(g.GetTimeoutMs()),
		OnTimeout: rota.GateTimeout(min(g.GetOnTimeout(), math.MaxUint8))}
}

// SignalWorkflowOp returns the operation that completes a gate, or ends it otherwise.
func SignalWorkflowOp(s *rota.Signal) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SignalWorkflow{SignalWorkflow: &fsmpb.SignalWorkflow{Workflow: string(s.Workflow),
		Node: s.Node, Id: s.ID, Payload: s.Payload, Refuse: s.Refuse}}}
}

// parentSteps returns a node's parents in the form of the log: the first as it is, each next one as the difference to
// the one before.
func parentSteps(parents []uint32) []uint32 {
	if len(parents) == 0 {
		return nil
	}
	steps := make([]uint32, len(parents))
	last := uint32(0)
	for i, p := range parents {
		steps[i], last = p-last, p
	}
	return steps
}

// CommitWorkflowOp returns the operation that starts a workflow whose nodes have all arrived.
func CommitWorkflowOp(id rota.WorkflowID, content [16]byte) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_CommitWorkflow{CommitWorkflow: &fsmpb.CommitWorkflow{Id: string(id),
		Content: content[:]}}}
}

// CancelWorkflowOp returns the operation that ends the unfinished parts of a workflow.
func CancelWorkflowOp(id rota.WorkflowID) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_CancelWorkflow{CancelWorkflow: &fsmpb.CancelWorkflow{Id: string(id)}}}
}

// RetryWorkflowOp returns the operation that runs again what did not complete. from is a node's id or empty; runs is
// how often the workflow has run as far as the caller knows.
func RetryWorkflowOp(id rota.WorkflowID, from string, runs int32) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_RetryWorkflow{RetryWorkflow: &fsmpb.RetryWorkflow{Id: string(id), From: from,
		Runs: runs}}}
}
