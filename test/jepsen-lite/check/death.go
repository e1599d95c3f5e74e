package check

import "fmt"

// checkDeath requires the voters to heal by themselves if one of them died for good.
func checkDeath(v *view) (found []Anomaly) {
	if v.After == nil {
		return nil
	}
	d := v.After.Death
	if d == nil {
		return []Anomaly{{Text: "no node died for good: " + v.After.Error}}
	}
	say := func(format string, args ...any) {
		found = append(found, Anomaly{IDs: []string{d.Node}, At: d.At, Text: fmt.Sprintf(format, args...)})
	}
	if d.HealedMs < 0 {
		say("%s died for good and %s joined, and the voters did not heal: %s", d.Node, d.Next, d.Text)
	}
	if d.Fewest < 3 {
		say("of %d voters %d were left after %s died", d.Voters, d.Fewest, d.Node)
	}
	if d.Wanted[1] < d.Wanted[0] {
		say("%d voters were required before %s died, and %d after", d.Wanted[0], d.Node, d.Wanted[1])
	}
	for _, id := range d.Gone {
		if id != d.Node {
			say("%s was removed: it is %s that died", id, d.Node)
		}
	}
	v.figures["death_healed_ms"] = d.HealedMs
	return found
}
