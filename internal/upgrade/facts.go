package upgrade

import (
	"time"

	"github.com/rotasched/rota"
)

// Facts are the known facts about a cluster before an upgrade.
type Facts struct {
	// Now is the time at which the expiry of certificates and the age of the backup are measured.
	Now time.Time
	// Status is the cluster as one node sees it, Peers Raft's configuration.
	Status rota.ClusterStatus
	Peers  []rota.RaftPeer
	// Answers are each node's own answers, by its id.
	Answers map[rota.NodeID]Answer
	// Own is the binary that runs the check, To the one to upgrade to; nil for none.
	Own Binary
	To  *Binary
}

// Answer is a node's view of the cluster, or why it did not answer.
type Answer struct {
	Status rota.ClusterStatus
	Err    error
}

// Binary is the output of `rota version -o json`.
type Binary struct {
	Version string   `json:"version"`
	Formats *Formats `json:"formats,omitempty"`
}

// Formats are those that a binary reads and writes. It reads older ones too.
type Formats struct {
	// Rules is the newest version of the rules that it knows.
	Rules uint32 `json:"rules_version"`
	// Node, Snapshot and History are the formats of node.json, of snapshots and backups, and of the file of ended jobs
	// and events.
	Node     uint32 `json:"node"`
	Snapshot uint32 `json:"snapshot"`
	History  uint32 `json:"history"`
}

// Result is the result of a check.
type Result string

const (
	// OK means that nothing need be done.
	OK Result = "ok"
	// Warning is worth knowing beforehand, and does not prevent an upgrade.
	Warning Result = "warning"
	// Blocked prevents an upgrade.
	Blocked Result = "blocked"
)

// Finding is the result of one check, for one node or for the cluster.
type Finding struct {
	Check  string      `json:"check"`
	Result Result      `json:"result"`
	Node   rota.NodeID `json:"node,omitempty"`
	Text   string      `json:"text"`
	// Next is what to do; empty if nothing.
	Next string `json:"next,omitempty"`
}

// Report has all findings.
type Report struct {
	// Ready means that nothing prevents the upgrade.
	Ready    bool      `json:"ready"`
	Findings []Finding `json:"findings"`
	// Nodes are in the order in which they are upgraded: nonvoters, followers, the leader.
	Nodes []Node `json:"nodes"`
}

// Node is one node of the report.
type Node struct {
	ID      rota.NodeID `json:"id"`
	Version string      `json:"version"`
	// Rules is the newest version of the rules that its binary knows, 0 if it does not answer.
	Rules uint32 `json:"rules_version"`
	Voter bool   `json:"voter"`
	// Leader means that it leads, Done that it runs the new version already.
	Leader bool `json:"leader"`
	Done   bool `json:"done"`
}

// Judge makes every check.
func (f Facts) Judge() Report {
	j := &judge{Facts: f}
	for _, check := range []struct {
		name string
		made func(*judge)
	}{
		{"members", (*judge).members}, {"health", (*judge).health}, {"quorum", (*judge).quorum},
		{"leader", (*judge).leader},
		{"configuration", (*judge).configuration}, {"log", (*judge).log}, {"digests", (*judge).digests},
		{"clocks", (*judge).clocks},
		{"certificates", (*judge).certificates}, {"disk", (*judge).disk}, {"backup", (*judge).backup},
		{"mode", (*judge).mode},
		{"versions", (*judge).versions}, {"rules", (*judge).rules}, {"formats", (*judge).formats},
	} {
		j.check = check.name
		check.made(j)
	}
	r := Report{Ready: true, Findings: j.found, Nodes: j.order()}
	for _, found := range j.found {
		r.Ready = r.Ready && found.Result != Blocked
	}
	return r
}

// judge collects findings.
type judge struct {
	Facts
	check string
	found []Finding
}

func (j *judge) say(result Result, node rota.NodeID, text, next string) {
	j.found = append(j.found, Finding{Check: j.check, Result: result, Node: node, Text: text, Next: next})
}

// fine records that a check is OK, unless it has a finding already.
func (j *judge) fine(text string) {
	if len(j.found) == 0 || j.found[len(j.found)-1].Check != j.check {
		j.say(OK, "", text, "")
	}
}
