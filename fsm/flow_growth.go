package fsm

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// A node that completes may add nodes to its workflow (SPEC §23.2). They get the last numbers, and their edges to that
// node are met from the start. Vertices that wait for the node also wait for the added nodes that join, which have
// larger numbers. A vertex is through once it has COMPLETED and all joining vertices that it grew are through,
// recursively.

// sprouts are the vertices that one vertex grew, with consecutive numbers from first. open counts those that join and
// are not through, unsettled those that join and are not settled, lost those that join and are lost.
type sprouts struct {
	first, n, open, unsettled uint32
	lost                      int
}

// note registers an appended vertex with the one that grew it.
func (f *flow) note(v *state.VertexRow) {
	by, grown := v.GrownBy()
	if !grown {
		return
	}
	s := f.sprouts[by]
	if s == nil {
		s = &sprouts{first: v.Number}
		if f.sprouts == nil {
			f.sprouts = make(map[uint32]*sprouts)
		}
		f.sprouts[by] = s
	}
	s.n++
	if v.Joins() {
		s.open++
		s.unsettled++
	}
}

// grown returns the vertices that one grew.
func (f *flow) grown(number uint32) []*state.VertexRow {
	s := f.sprouts[number]
	if s == nil {
		return nil
	}
	return f.rows[s.first : s.first+s.n]
}

// through reports whether a vertex has COMPLETED and all joining vertices that it grew are through.
func (f *flow) through(number uint32) bool {
	s := f.sprouts[number]
	return f.rows[number].State == rota.NodeState(rota.JobCompleted) && (s == nil || s.open == 0)
}

// ripple calls wait for each vertex that waits for the given one, or for another that is through once it is.
func (f *flow) ripple(number uint32, wait func(child uint32)) {
	for f.through(number) {
		for _, c := range f.children[number] {
			wait(c)
		}
		v := f.rows[number]
		if !v.Joins() {
			return
		}
		number, _ = v.GrownBy()
		f.sprouts[number].open--
	}
}

// spoil calls wait for each vertex that waits for the given one, or for another that is lost with it, or, if by is -1,
// no longer lost.
func (f *flow) spoil(number uint32, by int, wait func(child uint32)) {
	for {
		for _, c := range f.children[number] {
			wait(c)
		}
		v := f.rows[number]
		if !v.Joins() {
			return
		}
		number, _ = v.GrownBy()
		s := f.sprouts[number]
		before := s.lost
		if s.lost += by; before > 0 && s.lost > 0 {
			return
		}
	}
}

// sources returns the vertices that a vertex waits for, or did: its parents and the joining vertices that they grew, by
// number.
func (f *flow) sources(v *state.VertexRow) []uint32 {
	if len(f.sprouts) == 0 {
		return v.Parents
	}
	var list []uint32
	seen := make(map[uint32]bool, len(v.Parents))
	add := func(n uint32) {
		if !seen[n] {
			seen[n] = true
			list = append(list, n)
		}
	}
	for _, p := range v.Parents {
		add(p)
		if !v.Awaits(p) {
			continue
		}
		for at := len(list) - 1; at < len(list); at++ {
			for _, s := range f.grown(list[at]) {
				if s.Joins() {
					add(s.Number)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// newQueues returns the queues of a completion's children in which the workflow has no nodes.
func (fs *flows) newQueues(l *state.LeaseRow, op *fsmpb.LeaseOp) (list []string) {
	var g fsmpb.Growth
	f, _ := fs.vertex(l.Job)
	if n := len(op.GetChildren()); f == nil || n == 0 || n > limits.MaxChildrenBytes ||
		proto.Unmarshal(op.GetChildren(), &g) != nil {
		return nil
	}
	for _, n := range g.GetNodes() {
		queue := rota.QueueName(n.GetSpec().GetQueue())
		if _, has := f.queueAt[queue]; !has && queue != "" && queue != fs.workflows.Get(f.id).Queue {
			list = append(list, string(queue))
		}
	}
	return list
}
