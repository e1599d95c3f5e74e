package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// Gate is what makes a vertex a gate. It is replaced, never changed.
type Gate struct {
	Terms rota.Gate
	// Since is when its parents had completed and it began to wait; due the date of its
	// timeout, 0 for none.
	Since rota.Moment
	Due   rota.Date
	// Signal is the id of the one that counts, "" for none yet; content stands for what that
	// said. refuse and payload are kept until the gate ends.
	Signal  string
	Content rota.Digest
	Refuse  bool
	Payload []byte
}

// Own returns the gate's terms, nil of what is none.
func (g *Gate) Own() *rota.Gate {
	if g == nil {
		return nil
	}
	return &g.Terms
}

// Held counts the bytes that a signal has kept for it.
func (g *Gate) Held() int64 {
	if g == nil {
		return 0
	}
	return int64(len(g.Payload))
}

// Waits reports whether a vertex is a gate that waits for its signal.
func (r *VertexRow) Waits() bool {
	return r.Gate != nil && r.State == VertexBlocked && !r.Gate.Since.IsZero() && r.Gate.Signal == ""
}

// GateDue is the date of the timeout of a gate that waits, 0 for none.
func (r *VertexRow) GateDue() int64 {
	if !r.Waits() {
		return 0
	}
	return int64(r.Gate.Due)
}

// encodeTerms is when a vertex runs, and what never changes of a gate, or that the vertex is none. One that runs on
// success has the byte of rules version 1.
func encodeTerms(e *Encoder, run rota.NodeRun, terms *rota.Gate) {
	if e.flags(terms != nil, run == rota.RunOnFailure, run == rota.RunAlways); terms == nil {
		return
	}
	e.Int(terms.Timeout.Milliseconds())
	e.Uint(uint64(terms.OnTimeout))
}

func decodeTerms(d *Decoder) (run rota.NodeRun, g *Gate) {
	isGate, onFailure, always := d.flags()
	switch {
	case isGate && (onFailure || always), onFailure && always:
		d.Fail()
	case onFailure:
		run = rota.RunOnFailure
	case always:
		run = rota.RunAlways
	}
	if !isGate {
		return run, nil
	}
	return run, &Gate{Terms: rota.Gate{Timeout: millis.Duration(d.Int()), OnTimeout: rota.GateTimeout(d.Enum(uint64(rota.GateCompletes)))}}
}

// canonical is what changes of a gate.
func (g *Gate) canonical(e *Encoder) {
	if g == nil {
		return
	}
	e.Moment(g.Since)
	e.Int(int64(g.Due))
	if e.Str(g.Signal); g.Signal == "" {
		return
	}
	e.digest(g.Content)
	e.Bool(g.Refuse)
	e.bytes(g.Payload)
}

// decode reads what canonical wrote into a gate of which the terms are known.
func (g *Gate) decode(d *Decoder) {
	if g == nil {
		return
	}
	g.Since, g.Due = d.Moment(), rota.Date(d.Int())
	if g.Signal = d.Str(); g.Signal != "" {
		g.Content, g.Refuse, g.Payload = d.digest(), d.Bool(), d.bytes()
	}
}

// SignalContent stands for what a signal says.
func SignalContent(e *Encoder, payload []byte, refuse bool) rota.Digest {
	e.B = e.B[:0]
	e.Bool(refuse)
	e.bytes(payload)
	return HashBytes(e.B)
}

// Growth is what a vertex has to do with children that were added as a node completed. It
// is replaced, never changed.
type Growth struct {
	// By is one more than the number of the vertex whose completion added this one, 0 of one
	// that was submitted; joins says that whoever waits for that one waits for this one too.
	By    uint32
	Joins bool
	// Content stands for what the vertex itself added as it completed; zero for nothing. Where
	// the workflow was ending it was dropped.
	Content rota.Digest
}

// GrownBy returns the vertex whose completion added one.
func (r *VertexRow) GrownBy() (number uint32, ok bool) {
	if r.Growth == nil || r.Growth.By == 0 {
		return 0, false
	}
	return r.Growth.By - 1, true
}

// Joins reports whether whoever waits for the vertex that grew it waits for this one too.
func (r *VertexRow) Joins() bool { return r.Growth != nil && r.Growth.Joins }

// Awaits reports whether the vertex waits for a parent: the one that grew it has COMPLETED.
func (r *VertexRow) Awaits(parent uint32) bool {
	by, grown := r.GrownBy()
	return !grown || by != parent
}

// canonical is the row's part that says so.
func (g *Growth) canonical(e *Encoder) {
	if e.Bool(g != nil); g == nil {
		return
	}
	e.Uint(uint64(g.By))
	e.Bool(g.Joins)
	e.digest(g.Content)
}

func decodeGrowth(d *Decoder) *Growth {
	if !d.Bool() {
		return nil
	}
	return &Growth{By: uint32(d.Enum(rota.MaxWorkflowNodes)), Joins: d.Bool(), Content: d.digest()}
}
