package check

import (
	"fmt"

	"github.com/rotasched/rota"
)

// Revocation is a token of a user that was replaced and revoked.
type Revocation struct {
	Token  string `json:"token"`
	Holder string `json:"holder"`
	// Begin and End are those of the whole operation. Between them the user may have no valid token.
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
	// Asked is when the revocation was requested, Acknowledged when it was acknowledged; 0 for never.
	Asked        int64 `json:"asked,omitempty"`
	Acknowledged int64 `json:"acknowledged,omitempty"`
}

// Revoked records that a revocation was acknowledged.
func (r *Recorder) Revoked(token string, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == nil {
		r.revoked = make(map[string]int64)
	}
	r.revoked[token] = at
}

// Doubted makes the outcome of a call that was refused for its token unknown, unless the whole call came after the
// revocation: the library retries by itself, under the then current token, and an earlier try may have been accepted.
func (o Op) Doubted(rec *Recorder) Op {
	if o.Kind != rota.KindUnauthenticated.String() && o.Kind != rota.KindDenied.String() {
		return o
	}
	rec.mu.Lock()
	at, revoked := rec.revoked[o.Shown]
	rec.mu.Unlock()
	if !revoked || o.Invoke <= at {
		o.Outcome, o.Return = Unknown, never
	}
	return o
}

// checkRevoked requires that nothing is accepted that began with a token whose revocation had been acknowledged.
func checkRevoked(v *view) (found []Anomaly) {
	at := make(map[string]int64)
	for _, r := range v.Revocations {
		if r.Acknowledged > 0 {
			at[r.Token] = r.Acknowledged
		}
	}
	tried := 0
	for i := range v.Ops {
		op := &v.Ops[i]
		acknowledged, revoked := at[op.Shown]
		if !revoked || op.Invoke <= acknowledged {
			continue
		}
		tried++
		if op.Outcome == OK {
			found = append(found, Anomaly{IDs: []string{op.Job, op.Shown}, At: op.Invoke, Text: fmt.Sprintf(
				"%s of %s (job %q, node %s) began at %s with token %s, whose revocation was acknowledged at %s, and was accepted",
				op.Func, op.Process, op.Job, op.Node, seconds(op.Invoke), op.Shown, seconds(acknowledged))})
		}
	}
	if len(v.Revocations) > 0 {
		v.figures["revocations"], v.figures["tried_with_revoked_tokens"] = len(at), tried
	}
	return found
}

// turnedAway reports whether a worker may have had no valid token during a time.
func (v *view) turnedAway(hand string, s span) bool {
	for _, r := range v.Revocations {
		if r.Holder == hand && r.Begin < s.to && r.End+settling > s.from {
			return true
		}
	}
	return false
}
