package check

import (
	"fmt"
)

// checkLiveness compares the last phase with its limits.
func checkLiveness(v *view) (found []Anomaly) {
	l := v.Liveness
	for _, want := range []struct {
		what        string
		took, limit int64
	}{{"a leader", l.LeaderMs, leaderLimitMs}, {"a write", l.WriteMs, writeLimitMs},
		{"an empty queue", l.DrainMs, drainLimitMs}} {
		switch {
		case want.took < 0:
			found = append(found, Anomaly{At: l.HealedAt, Text: fmt.Sprintf("after healing there never was %s: %s",
				want.what, l.Text)})
		case want.took > want.limit:
			found = append(found, Anomaly{At: l.HealedAt, Text: fmt.Sprintf(
				"after healing it took %d ms until %s, at most %d are promised", want.took, want.what, want.limit)})
		}
	}
	if l.NodesMs < 0 {
		found = append(found, Anomaly{At: l.HealedAt, Text: "after healing not every node served: " + l.Text})
	}
	return found
}
