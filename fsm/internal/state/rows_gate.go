package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// Gate holds the data of a vertex that is a gate. It is replaced, never changed.
type Gate struct {
	Terms rota.Gate
	// Since is when its parents had completed and it began to wait; due is the date of its timeout, 0 for none.
	Since rota.Moment
	Due   rota.Date
	// Signal is the id of the signal that counts, "" if there is none yet; content is the hash of its content. refuse
	// and payload are kept until the gate ends.
	Signal  string
	Content rota.Digest
	Refuse  bool
	Payload []byte
}

// Own returns the gate's terms; nil if g is nil.
func (g *Gate) Own() *rota.Gate {
	if g == nil {
		return nil
	}
	return &g.Terms
}

// Held returns the size in bytes of the signal kept for the gate.
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

// GateDue returns the date of the timeout of a waiting gate, 0 for none.
func (r *VertexRow) GateDue() int64 {
	if !r.Waits() {
		return 0
	}
	return int64(r.Gate.Due)
}

// encodeTerms writes when a vertex runs and the terms of its gate, or that it is not a gate. A vertex that runs on
// success is written as in rules version 1.
func encodeTerms(e *Encoder, run rota.NodeRun, terms *rota.Gate) {
	e.flags(terms != nil, run == rota.RunOnFailure, run == rota.RunAlways)
	if terms == nil {
		return
	}
	e.Int(terms.Timeout.Milliseconds())
	e.Uint(uint64(terms.OnTimeout))
}

func decodeTerms(d *Decoder) (run rota.NodeRun, g *Gate) {
	var set [3]bool
	d.flags(set[:])
	isGate, onFailure, always := set[0], set[1], set[2]
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
	return run, &Gate{Terms: rota.Gate{Timeout: millis.Duration(d.Int()),
		OnTimeout: rota.GateTimeout(d.Enum(uint64(rota.GateCompletes)))}}
}

// canonical appends the parts of a gate that change.
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

// decode reads what canonical wrote into a gate whose terms are set.
func (g *Gate) decode(d *Decoder) {
	if g == nil {
		return
	}
	g.Since, g.Due = d.Moment(), rota.Date(d.Int())
	if g.Signal = d.Str(); g.Signal != "" {
		g.Content, g.Refuse, g.Payload = d.digest(), d.Bool(), d.bytes()
	}
}

// SignalContent returns the hash of a signal's content.
func SignalContent(e *Encoder, payload []byte, refuse bool) rota.Digest {
	e.B = e.B[:0]
	e.Bool(refuse)
	e.bytes(payload)
	return HashBytes(e.B)
}

// Growth relates a vertex to children that were added when a node completed. It is replaced, never changed.
type Growth struct {
	// By is one more than the number of the vertex whose completion added this one, 0 for a submitted vertex. joins
	// reports whether vertices that wait for that one wait for this one too.
	By    uint32
	Joins bool
	// Content is the hash of what the vertex itself added when it completed, zero for nothing. If the workflow was
	// ending, the addition was dropped.
	Content rota.Digest
}

// GrownBy returns the number of the vertex whose completion added this one.
func (r *VertexRow) GrownBy() (number uint32, ok bool) {
	if r.Growth == nil || r.Growth.By == 0 {
		return 0, false
	}
	return r.Growth.By - 1, true
}

// Joins reports whether vertices that wait for the vertex that grew it wait for this one too.
func (r *VertexRow) Joins() bool { return r.Growth != nil && r.Growth.Joins }

// Awaits reports whether the vertex waits for a parent: the one that grew it has COMPLETED.
func (r *VertexRow) Awaits(parent uint32) bool {
	by, grown := r.GrownBy()
	return !grown || by != parent
}

// canonical appends the growth part of the row.
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
