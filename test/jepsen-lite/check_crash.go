package main

import "fmt"

// checkCrash tells of nodes that ended though nobody had told them to.
func checkCrash(v *view) (found []Anomaly) {
	for _, c := range v.Crashes {
		found = append(found, Anomaly{IDs: []string{c.Node}, At: c.At, Text: fmt.Sprintf(
			"node %s ended by itself at %s (%s): %s", c.Node, seconds(c.At), c.Exit, c.Log)})
	}
	for _, c := range v.Stuck {
		found = append(found, Anomaly{IDs: []string{c.Node}, At: c.At, Text: fmt.Sprintf(
			"node %s had not ended %s after SIGTERM at %s: %s", c.Node, c.Exit, seconds(c.At), c.Log)})
	}
	return found
}
