package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// gate is what makes a vertex a gate. It is replaced, never changed.
type gate struct {
	terms rota.Gate
	// since is when its parents had completed and it began to wait; due the date of its
	// timeout, 0 for none.
	since rota.Moment
	due   rota.Date
	// signal is the id of the one that counts, "" for none yet; content stands for what that
	// said. refuse and payload are kept until the gate ends.
	signal  string
	content rota.Digest
	refuse  bool
	payload []byte
}

// own returns the gate's terms, nil of what is none.
func (g *gate) own() *rota.Gate {
	if g == nil {
		return nil
	}
	return &g.terms
}

// held counts the bytes that a signal has kept for it.
func (g *gate) held() int64 {
	if g == nil {
		return 0
	}
	return int64(len(g.payload))
}

// waits reports whether a vertex is a gate that waits for its signal.
func (r *vertexRow) waits() bool {
	return r.gate != nil && r.state == vertexBlocked && !r.gate.since.IsZero() && r.gate.signal == ""
}

// gateDue is the date of the timeout of a gate that waits, 0 for none.
func (r *vertexRow) gateDue() int64 {
	if !r.waits() {
		return 0
	}
	return int64(r.gate.due)
}

// encodeTerms is when a vertex runs, and what never changes of a gate, or that the vertex is none. One that runs on
// success has the byte of rules version 1.
func encodeTerms(e *encoder, run rota.NodeRun, terms *rota.Gate) {
	if e.flags(terms != nil, run == rota.RunOnFailure, run == rota.RunAlways); terms == nil {
		return
	}
	e.int(terms.Timeout.Milliseconds())
	e.uint(uint64(terms.OnTimeout))
}

func decodeTerms(d *decoder) (run rota.NodeRun, g *gate) {
	isGate, onFailure, always := d.flags()
	switch {
	case isGate && (onFailure || always), onFailure && always:
		d.fail()
	case onFailure:
		run = rota.RunOnFailure
	case always:
		run = rota.RunAlways
	}
	if !isGate {
		return run, nil
	}
	return run, &gate{terms: rota.Gate{Timeout: millis.Duration(d.int()), OnTimeout: rota.GateTimeout(d.enum(uint64(rota.GateCompletes)))}}
}

// canonical is what changes of a gate.
func (g *gate) canonical(e *encoder) {
	if g == nil {
		return
	}
	e.moment(g.since)
	e.int(int64(g.due))
	if e.str(g.signal); g.signal == "" {
		return
	}
	e.digest(g.content)
	e.bool(g.refuse)
	e.bytes(g.payload)
}

// decode reads what canonical wrote into a gate of which the terms are known.
func (g *gate) decode(d *decoder) {
	if g == nil {
		return
	}
	g.since, g.due = d.moment(), rota.Date(d.int())
	if g.signal = d.str(); g.signal != "" {
		g.content, g.refuse, g.payload = d.digest(), d.bool(), d.bytes()
	}
}

// signalContent stands for what a signal says.
func signalContent(e *encoder, payload []byte, refuse bool) rota.Digest {
	e.b = e.b[:0]
	e.bool(refuse)
	e.bytes(payload)
	return hashBytes(e.b)
}

// growth is what a vertex has to do with children that were added as a node completed. It
// is replaced, never changed.
type growth struct {
	// by is one more than the number of the vertex whose completion added this one, 0 of one
	// that was submitted; joins says that whoever waits for that one waits for this one too.
	by    uint32
	joins bool
	// content stands for what the vertex itself added as it completed; zero for nothing. Where
	// the workflow was ending it was dropped.
	content rota.Digest
}

// grownBy returns the vertex whose completion added one.
func (r *vertexRow) grownBy() (number uint32, ok bool) {
	if r.growth == nil || r.growth.by == 0 {
		return 0, false
	}
	return r.growth.by - 1, true
}

// joins reports whether whoever waits for the vertex that grew it waits for this one too.
func (r *vertexRow) joins() bool { return r.growth != nil && r.growth.joins }

// awaits reports whether the vertex waits for a parent: the one that grew it has COMPLETED.
func (r *vertexRow) awaits(parent uint32) bool {
	by, grown := r.grownBy()
	return !grown || by != parent
}

// canonical is the row's part that says so.
func (g *growth) canonical(e *encoder) {
	if e.bool(g != nil); g == nil {
		return
	}
	e.uint(uint64(g.by))
	e.bool(g.joins)
	e.digest(g.content)
}

func decodeGrowth(d *decoder) *growth {
	if !d.bool() {
		return nil
	}
	return &growth{by: uint32(d.enum(rota.MaxWorkflowNodes)), joins: d.bool(), content: d.digest()}
}
