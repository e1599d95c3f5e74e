package check

import (
	"fmt"
	"strings"
)

// unkept is the text of an audit where retention kept no state that the log follows on: then there is nothing to judge.
const unkept = "nothing can be replayed"

// checkAudit requires every round of the run to equal the result of the state at its height (SPEC §2.4).
func checkAudit(v *view) (found []Anomaly) {
	say := func(a *AuditOf, format string, args ...any) {
		text := "audit of node " + a.Node + ": " + fmt.Sprintf(format, args...)
		found = append(found, Anomaly{IDs: []string{a.Node}, Text: text})
	}
	proved, operations := uint64(0), uint64(0)
	for i := range v.Audits {
		a := &v.Audits[i]
		switch r := a.Report; {
		case r == nil && strings.Contains(a.Error, unkept):
			v.undecided = append(v.undecided, "audit: node "+a.Node+" keeps no state that its log follows on")
		case r == nil:
			say(a, "%s", a.Error)
		case r.Difference != nil:
			d := r.Difference
			say(a, "round %d of queue %s at index %d (height %d) was logged as %s, and the state gives %s", d.Epoch,
				d.Queue, d.Index, d.Height, Short(d.Logged), Short(d.Proved))
		case r.Proved != r.Rounds:
			say(a, "%d rounds of %d were proved", r.Proved, r.Rounds)
		case a.Error != "":
			say(a, "%s", a.Error)
		default:
			proved, operations = max(proved, r.Proved), max(operations, r.Operations)
		}
	}
	if len(v.Audits) < v.Nodes {
		found = append(found, Anomaly{Text: fmt.Sprintf("%d nodes were audited, of %d", len(v.Audits), v.Nodes)})
	}
	v.figures["rounds_proved"], v.figures["operations_audited"] = proved, operations
	return found
}
