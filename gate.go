package rota

import (
	"cmp"
	"time"
)

// GateType is the job type of gates: no worker ever runs one.
const GateType JobType = "gate"

// Gate makes a node of a workflow a gate (SPEC §23.1): it has no job, and after its parents have completed it waits for
// a signal or a timeout.
type Gate struct {
	// Timeout is how long the gate waits after its parents have completed, at most MaxGateTimeout; 0 means forever.
	Timeout time.Duration `json:"timeout_ms,omitempty"`
	// OnTimeout is what happens to the gate at its timeout.
	OnTimeout GateTimeout `json:"on_timeout,omitempty"`
}

// GateTimeout is what happens to a gate that was not signalled in time.
type GateTimeout uint8

// The outcomes of such a gate: EXPIRED, or COMPLETED with an empty output.
const (
	GateExpires GateTimeout = iota
	GateCompletes
)

var gateTimeoutNames = []string{"expire", "complete"}

// String returns the name that SPEC §23.1 uses.
func (t GateTimeout) String() string { return nameOf(gateTimeoutNames, int(t)) }

// MarshalText implements encoding.TextMarshaler.
func (t GateTimeout) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *GateTimeout) UnmarshalText(text []byte) error {
	v, err := valueOf(gateTimeoutNames, "on_timeout", text)
	*t = GateTimeout(v)
	return err
}

// CheckGate rejects a gate that is out of range, or whose template has anything other than id, queue, tenant, priority
// and labels: a gate is not a job.
func (s *JobSpec) CheckGate(g *Gate) error {
	if s.Type != GateType {
		return Refusef(KindInvalid, "type", "type: got %q; a gate has no type, omit it", shorten(string(s.Type)))
	}
	if g.Timeout < 0 || g.Timeout > MaxGateTimeout {
		return Refusef(KindInvalid, "gate.timeout_ms", "timeout_ms must be between 0 (forever) and %d (a year), got %s",
			MaxGateTimeout.Milliseconds(), quoted("timeout_ms", g.Timeout.Milliseconds()))
	}
	if g.OnTimeout > GateCompletes {
		return NotOneOf("gate.on_timeout", g.OnTimeout.String(), gateTimeoutNames...)
	}
	bare := &JobSpec{ID: s.ID, Queue: s.Queue, Type: s.Type, Tenant: s.Tenant, Priority: s.Priority, Labels: s.Labels,
		Minted: s.Minted}
	if how := s.Difference(bare); how != "" || len(s.Headers) > 0 {
		how = cmp.Or(how, "it has headers")
		return Refusef(KindInvalid, "gate", "a gate may only have id, parents, queue, priority and labels: %s", how)
	}
	return nil
}

// CheckTemplate checks the template of the node's job, or of a gate, which may have no type.
func (n *NodeSpec) CheckTemplate(payloadMax int64) error {
	s := n.JobSpec
	if n.Gate != nil && s.Type == "" {
		s.Type = GateType
	}
	if err := n.Run.Check(n.Gate); err != nil {
		return err
	}
	if err := s.CheckTemplate(payloadMax); err != nil || n.Gate == nil {
		return err
	}
	return s.CheckGate(n.Gate)
}

// Signal ends the wait of a gate.
type Signal struct {
	// Workflow and Node name the gate.
	Workflow WorkflowID `json:"workflow"`
	Node     string     `json:"node"`
	// ID is the idempotency key; the client library sets one where it is empty.
	ID string `json:"id"`
	// Payload is the gate's output, at most MaxSignalBytes; for a refusal, it is the reason.
	Payload Blob `json:"payload,omitempty"`
	// Refuse ends the gate DEAD instead.
	Refuse bool `json:"refuse,omitempty"`
}

// CheckShape makes the checks that need only the signal.
func (s *Signal) CheckShape() error {
	if err := CheckID("workflow", s.Workflow); err != nil {
		return err
	}
	if err := CheckNodeID("node", s.Node); err != nil {
		return err
	}
	if err := CheckID("id", s.ID); err != nil {
		return err
	}
	if n := len(s.Payload); n > MaxSignalBytes {
		return Refusef(KindInvalid, "payload",
			"payload too long: got %d bytes, maximum %d; store large data elsewhere and send its name", n,
			MaxSignalBytes)
	}
	return nil
}

// Signalled is the outcome of a signal.
type Signalled struct {
	Workflow WorkflowID `json:"workflow"`
	Node     string     `json:"node"`
	ID       string     `json:"id"`
	// Existed reports that the same signal was accepted before.
	Existed bool `json:"existed,omitempty"`
	// Index is the index of the entry that accepted it.
	Index Index `json:"index"`
}
