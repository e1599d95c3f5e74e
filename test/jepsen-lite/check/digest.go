package check

import (
	"fmt"
	"strings"
)

// checkDigest compares the digests that nodes reported, during the run and at the end.
func checkDigest(v *view) (found []Anomaly) {
	type said struct{ node, digest string }
	at := make(map[uint64]said)
	compared := 0
	for _, s := range v.Samples {
		for _, d := range s.Digests {
			other, known := at[d.Index]
			if !known {
				at[d.Index] = said{d.Node, d.Digest}
				continue
			}
			if other.node != d.Node {
				compared++
			}
			if other.digest != d.Digest {
				found = append(found, Anomaly{At: s.At, Text: fmt.Sprintf(
					"at index %d the digest of %s is %s and of %s %s", d.Index, other.node, other.digest, d.Node,
					d.Digest)})
			}
		}
	}
	v.figures["digests_compared"] = compared
	for _, text := range v.Damaged {
		found = append(found, Anomaly{Text: text})
	}
	if v.Verdict == nil {
		return append(found, Anomaly{Text: "operator verify gave no verdict at the end"})
	}
	for _, n := range v.Verdict.Nodes {
		if len(n.Violations) > 0 {
			found = append(found, Anomaly{Text: fmt.Sprintf("node %s breaks invariants: %s", n.ID,
				strings.Join(n.Violations, "; "))})
		}
		if n.Error != "" {
			found = append(found, Anomaly{Text: fmt.Sprintf("node %s could not be verified: %s", n.ID, n.Error)})
		}
	}
	if !v.Verdict.Equal {
		found = append(found, Anomaly{Text: fmt.Sprintf("the digests at index %d are not equal", v.Verdict.Index)})
	}
	if len(v.Verdict.Nodes) < v.Nodes {
		found = append(found, Anomaly{Text: fmt.Sprintf("%d nodes were verified, want %d", len(v.Verdict.Nodes),
			v.Nodes)})
	}
	return found
}
