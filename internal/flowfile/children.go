package flowfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
)

// childReader reads the children of one node and gathers their faults.
type childReader struct {
	flowReader
	// node is the one that completes.
	node   string
	growth rota.Growth
	// detached is the line which states that nothing waits for the children.
	detached int
}

// Children reads what a node adds to its workflow (SPEC §23.2): one JSON object a child, as a workflow's file describes
// its nodes, one after the other, and {"detached": true} with them. node is the one that completes. An empty text has
// no children: nil. The error is a Faults.
func Children(text []byte, node string) (*rota.Growth, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	r := &childReader{flowReader: flowReader{lines: map[string]int{}}, node: node}
	d := json.NewDecoder(bytes.NewReader(text))
	line, counted, ended := 1, int64(0), int64(0)
	for !r.full() {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			at, why := broken(text, ended)
			r.refuse(at, "not JSON: %v", why)
			break
		}
		ended = d.InputOffset()
		start := ended - int64(len(raw))
		line += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		if !r.value(flowPart{line, raw}) {
			break
		}
	}
	if r.detached > 0 && len(r.growth.Children) == 0 {
		r.refuse(r.detached, "detached is set without children: add one object for each child")
	}
	if err := r.verdict(); err != nil {
		return nil, err
	}
	if len(r.growth.Children) == 0 {
		return nil, nil
	}
	r.growth.Detached = r.detached > 0
	return &r.growth, nil
}

// broken returns the line on which a text ceases to be JSON, and why; its values up to an offset are JSON.
func broken(text []byte, from int64) (line int, why error) {
	b := jsonparts.NotJSON(text[from:])
	switch {
	case b == nil || errors.Is(b, io.ErrUnexpectedEOF):
		return lineAt(bytes.TrimRight(text, "\n"), int64(len(text))), io.ErrUnexpectedEOF
	default:
		return lineAt(text, from+int64(b.Offset)), b
	}
}

// value reads one object; it returns false if the rest is not read any more.
func (r *childReader) value(part flowPart) bool {
	if part.text[0] != '{' {
		r.refuse(part.line, "want an object {\"id\": …, \"type\": …} for each child, without a list around them")
		return false
	}
	var fields map[string]json.RawMessage
	if err := jsonparts.Read(part.text, &fields, true); err != nil {
		r.refuse(part.line, "%v", readable(err))
		return true
	}
	if says, has := fields["detached"]; has {
		r.detach(part.line, len(fields), says)
		return true
	}
	if len(r.growth.Children) == rota.MaxChildren {
		r.refuse(part.line, "too many children: got child %d, maximum %d at a time; let children add children of their own",
			rota.MaxChildren+1, rota.MaxChildren)
		return false
	}
	r.child(part)
	return true
}

// detach reads the object that is about all children.
func (r *childReader) detach(line, fields int, says json.RawMessage) {
	switch {
	case r.detached > 0:
		r.refuse(line, `duplicate "detached": first in line %d`, r.detached)
	case fields != 1 || string(says) != "true":
		r.refuse(line, `"detached" applies to all children: write {"detached": true} as a separate object`)
	}
	r.detached = cmp.Or(r.detached, line)
}

// child reads one node.
func (r *childReader) child(part flowPart) {
	n := rota.NewNodeSpec("", "", nil)
	err := strictly(part.text, &n)
	r.growth.Children = append(r.growth.Children, n)
	name := fmt.Sprintf("child %d", len(r.growth.Children))
	if n.ID != "" {
		name = fmt.Sprintf("child %q", head(n.ID))
	}
	first, twice := r.lines[n.ID]
	switch {
	case err != nil:
	case twice:
		err = fmt.Errorf("duplicate: first in line %d", first)
	case n.ID == r.node:
		err = errors.New("this is the id of the node that completes: each node needs its own")
	default:
		err = cmp.Or(r.check(&n), r.before(&n))
	}
	if err != nil {
		r.refuse(part.line, "%s: %v", name, err)
	}
	if !twice && n.ID != "" {
		r.lines[n.ID] = part.line // one with a fault is there, too
	}
}

// before refuses parents that do not come before a child.
func (r *childReader) before(n *rota.NodeSpec) error {
	for _, p := range n.Parents {
		if _, ok := r.lines[p]; !ok && p != r.node {
			return fmt.Errorf("parent %q is neither %q, the node that completes, nor a child before", head(p),
				head(r.node))
		}
	}
	return nil
}
