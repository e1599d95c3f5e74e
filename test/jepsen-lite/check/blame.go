package check

import (
	"fmt"
)

// checkBlame looks at attempts that were used up. An outcome, a deadline or a proof uses one up; if the last lease of a
// used-up attempt was given back instead, the library gave it back until the twentieth time counted (SPEC §8.4): no
// handler had done anything with the job, and a few of those kill it.
func checkBlame(v *view) (found []Anomaly) {
	declines := make(map[string]int)
	planned := make(map[string]int)
	for _, a := range v.attempts {
		switch {
		case a.end != nil && a.end.Did == DidDecline:
			planned[a.job]++
		case a.lost != nil && a.start == nil:
			declines[a.job]++
		}
	}
	unstarted := 0
	for _, n := range declines {
		unstarted += n
	}
	v.figures["leases_lost_unstarted"] = unstarted
	for i := range v.Final {
		j := &v.Final[i]
		for k := 1; k < len(j.Attempts); k++ {
			a, b := j.Attempts[k-1], j.Attempts[k]
			if b.Number > a.Number && a.End == "DECLINED" && planned[j.ID] < 10 {
				found = append(found, Anomaly{IDs: []string{j.ID, a.Lease}, Text: fmt.Sprintf(
					"attempt %d of job %s was used up by declines, %d of them by workers that never began; now it is %s",
					a.Number, j.ID, declines[j.ID], j.State)})
				break
			}
		}
	}
	return found
}
