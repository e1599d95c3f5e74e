package check

import (
	"fmt"

	"github.com/rotasched/rota"
)

// checkCompletion counts accepted completions, and checks whether they are still valid at the end.
func checkCompletion(v *view) (found []Anomaly) {
	accepted := 0
	for _, id := range v.ids {
		first := (*Op)(nil)
		last := rota.Token{}
		for _, op := range v.jobs[id] {
			if op.Func == OpStart && last.Compare(op.Token) < 0 {
				last = op.Token
			}
			if op.Func != OpReport || op.Did != DidComplete || op.Outcome != OK {
				continue
			}
			accepted++
			if first == nil {
				first = op
			} else if first.Token != op.Token {
				ids := []string{id, first.Lease, op.Lease}
				found = append(found, Anomaly{IDs: ids, At: op.Return, Text: fmt.Sprintf(
					"two completions of job %s were accepted: %s's (token %s) and %s's (token %s)", id, first.Process,
					first.Token, op.Process, op.Token)})
			}
		}
		if first == nil {
			continue
		}
		if first.Token.Compare(last) < 0 {
			found = append(found, Anomaly{IDs: []string{id}, Text: fmt.Sprintf(
				"job %s was completed with token %s and leased again with %s", id, first.Token, last)})
		}
		j := v.final[id]
		if j == nil {
			continue // checkLost reports it
		}
		if j.State != "COMPLETED" || j.Output != first.Output {
			found = append(found, Anomaly{IDs: []string{id}, At: first.Return, Text: fmt.Sprintf(
				"the completion of job %s was accepted (output %q), but at the end it is %s with output %q", id,
				first.Output, j.State, Short(j.Output))})
		}
	}
	v.figures["completed"] = accepted
	return found
}
