package check

import (
	"fmt"
)

// checkRepeat checks the answers to hostile workers.
func checkRepeat(v *view) (found []Anomaly) {
	forged, repeated := 0, 0
	for _, id := range v.ids {
		for _, op := range v.jobs[id] {
			wrong := ""
			switch {
			case op.Func != OpForge && op.Func != OpRepeat || op.Outcome == Unknown:
				continue
			case op.Func == OpForge:
				forged++
				if op.Outcome == OK {
					wrong = "was accepted"
				}
			case op.Did == "same after ok":
				repeated++
				if op.Outcome != OK || op.State != "COMPLETED" {
					wrong = "was answered otherwise than the first: " + op.Kind + " " + op.State + " " + op.Text
				}
			case op.Outcome == OK && (op.Did == "same after refused" || op.Did == "other after ok"):
				wrong = "was accepted"
			default:
				repeated++
			}
			if wrong != "" {
				found = append(found, Anomaly{IDs: []string{id, op.Lease}, At: op.Return, Text: fmt.Sprintf(
					"%s by %s on job %s (%s) %s", op.Func, op.Process, id, op.Did, wrong)})
			}
		}
	}
	v.figures["forged"], v.figures["repeated"] = forged, repeated
	return found
}
