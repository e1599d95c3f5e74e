package check

import (
	"fmt"

	"github.com/rotasched/rota"
)

// checkToken checks every token that any process saw.
func checkToken(v *view) (found []Anomaly) {
	type owner struct{ job, lease string }
	owners := make(map[rota.Token]owner)
	claim := func(t rota.Token, job, lease string) {
		o, known := owners[t]
		switch {
		case t.IsZero() || lease == "":
		case !known:
			owners[t] = owner{job, lease}
		case o != owner{job, lease}:
			found = append(found, Anomaly{IDs: []string{job, o.job}, Text: fmt.Sprintf(
				"token %s belongs to lease %.8s of job %s and to lease %.8s of job %s", t, o.lease, o.job, lease, job)})
		}
	}
	for _, id := range v.ids {
		for _, op := range v.jobs[id] {
			claim(op.Token, id, op.Lease)
		}
		found = append(found, tokensInOrder(v, id)...)
	}
	for i := range v.Final {
		j, last := &v.Final[i], rota.Token{}
		for _, a := range j.Attempts {
			claim(a.Token, j.ID, a.Lease)
			if last.Compare(a.Token) >= 0 {
				found = append(found, Anomaly{IDs: []string{j.ID}, Text: fmt.Sprintf(
					"job %s had a lease with token %s after one with %s", j.ID, a.Token, last)})
			}
			last = a.Token
		}
	}
	v.figures["tokens"] = len(owners)
	return found
}

// tokensInOrder requires workers to begin a job in the order of its tokens. A worker that was paused between its last
// check and its first action is excused, and one that was suspended before it began.
func tokensInOrder(v *view, id string) (found []Anomaly) {
	last := (*Op)(nil)
	for _, op := range v.jobs[id] {
		if op.Func != OpStart {
			continue
		}
		late := within(op.Invoke, v.paused(handOf(op.Process))) || v.trustedUntil(id, op.Lease, op.Token) <= op.Invoke
		if last != nil && op.Token.Compare(last.Token) < 0 && !late {
			found = append(found, Anomaly{IDs: []string{id, op.Lease, last.Lease}, At: op.Invoke, Text: fmt.Sprintf(
				"%s began on job %s with token %s at %s, after %s had with %s", op.Process, id, op.Token,
				seconds(op.Invoke), last.Process, last.Token)})
		}
		if last == nil || last.Token.Compare(op.Token) < 0 {
			last = op
		}
	}
	return found
}

// within reports whether a moment lies in a pause or just after it.
func within(at int64, pauses []span) bool {
	for _, p := range pauses {
		if at >= p.from && at <= min(p.to, never-afterPause)+afterPause {
			return true
		}
	}
	return false
}
