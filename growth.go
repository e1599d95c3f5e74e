package rota

import (
	"errors"
	"fmt"
)

// Growth is the set of nodes that a node of a workflow adds to it on completion, all or nothing (SPEC §23.2).
type Growth struct {
	// Children are at most MaxChildren nodes. Their parents are the completing node or earlier children; a child that
	// names no parent is a child of the completing node. An empty queue means the workflow's queue.
	Children []NodeSpec `json:"children"`
	// Detached means that no node waits for the children. Otherwise nodes that wait for the completing node also wait
	// for the children that have no children of their own.
	Detached bool `json:"detached,omitempty"`
}

// CheckShape makes the checks that need only the children; node is the completing node.
func (g *Growth) CheckShape(node string) error {
	if n := len(g.Children); n == 0 || n > MaxChildren {
		return Refusef(KindInvalid, "children", "children: got %d, want 1 to %d", n, MaxChildren)
	}
	before := map[string]bool{node: true}
	for i := range g.Children {
		n := &g.Children[i]
		if err := n.checkChild(before); err != nil {
			return ofChild(i, n.ID, err)
		}
		before[n.ID] = true
	}
	return nil
}

// checkChild is CheckTemplate for a node with parents from a given set, and with its workflow's queue and tenant.
func (n *NodeSpec) checkChild(before map[string]bool) error {
	if err := CheckNodeID("id", n.ID); err != nil {
		return err
	}
	if before[n.ID] {
		return Refusef(KindInvalid, "id", "the id is used by an earlier node: give each node its own id")
	}
	for i, id := range n.Parents {
		if !before[id] {
			return Refusef(KindInvalid, fmt.Sprintf("parents[%d]", i), "%q is neither the completing node nor an earlier child", shorten(id))
		}
	}
	if n.Tenant != "" {
		return Refusef(KindInvalid, "tenant", "tenant: got %.80q; omit it, a node has its workflow's tenant", n.Tenant)
	}
	whole := *n
	if whole.Queue == "" {
		whole.Queue = DefaultQueue
	}
	whole.Tenant = DefaultTenant
	return whole.CheckTemplate(MaxPayloadBytes)
}

// ofChild makes a refusal one of a completion's child.
func ofChild(place int, id string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return Refusef(e.Kind, fmt.Sprintf("children[%d].%s", place, e.Subject), "child %q: %s", shorten(id), e.Text)
}
