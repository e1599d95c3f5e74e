package check

import (
	"fmt"
	"strings"

	"github.com/rotasched/rota"
)

// checkLost compares the answers to producers with the final jobs.
func checkLost(v *view) (found []Anomaly) {
	asked, acked := make(map[string]bool), 0
	for _, id := range v.ids {
		for _, op := range v.jobs[id] {
			switch {
			case op.Func == OpSubmit && op.Outcome == OK:
				acked++
				asked[id] = true
				if v.Liveness.Listed && v.final[id] == nil {
					found = append(found, Anomaly{IDs: []string{id}, At: op.Return, Text: fmt.Sprintf(
						"job %s was acknowledged by %s at %s and is not there at the end", id, op.Node,
						seconds(op.Return))})
				}
			case op.Func == OpSubmit && op.Outcome == Unknown:
				asked[id] = true
			case op.Func == OpGetMin && op.Outcome == Refused && op.Kind != rota.KindUnauthenticated.String():
				found = append(found, Anomaly{IDs: []string{id}, At: op.Return, Text: fmt.Sprintf(
					"job %s was written at index %d, but a read at %s with that min_index returns %s", id, op.Index,
					op.Node, op.Kind)})
			}
		}
	}
	v.figures["acknowledged"] = acked
	if !v.Liveness.Listed {
		v.undecided = append(v.undecided, "lost: the jobs could not be listed at the end")
	}
	seen := make(map[string]bool)
	for i := range v.Final {
		j := &v.Final[i]
		if seen[j.ID] {
			found = append(found, Anomaly{IDs: []string{j.ID}, Text: "job " + j.ID + " is listed twice"})
		}
		seen[j.ID] = true
		if !asked[j.ID] {
			found = append(found, Anomaly{IDs: []string{j.ID},
				Text: "job " + j.ID + " was never submitted, or refused"})
		}
		if a := notAttempted(v, j); a != "" {
			found = append(found, Anomaly{IDs: []string{j.ID}, Text: a})
		}
	}
	return found
}

// notAttempted describes why a completed job's outcome does not come from any attempt.
func notAttempted(v *view, j *FinalJob) string {
	if j.State != "COMPLETED" || v.gates[j.ID] != nil {
		return ""
	}
	for _, op := range v.jobs[j.ID] {
		if (op.Func == OpStart || op.Func == OpGrant) && j.Output == j.ID+"/"+op.Token.String() {
			return ""
		}
		// The worker's first report need not have arrived: then its other one is the first.
		if op.Func == OpRepeat && op.Did == OtherAfterUnknown && op.Outcome != Refused && j.Output == Lie {
			return ""
		}
	}
	return fmt.Sprintf("job %s is COMPLETED with output %q, which no worker that had it can have sent", j.ID,
		strings.ToValidUTF8(Short(j.Output), "?"))
}
