package upgrade

import (
	"time"

	"github.com/rotasched/rota"
)

// Facts are what is known of a cluster before an upgrade.
type Facts struct {
	// Now is the moment that ends of certificates and the age of the backup are measured at.
	Now time.Time
	// Status is the cluster as one node sees it, Peers Raft's configuration.
	Status rota.ClusterStatus
	Peers  []rota.RaftPeer
	// Answers are what each node says where it is asked itself, by its id.
	Answers map[rota.NodeID]Answer
	// Own is the binary that asks, To the one to upgrade to; nil for none.
	Own Binary
	To  *Binary
}

// Answer is what one node says of the cluster, or why it says nothing.
type Answer struct {
	Status rota.ClusterStatus
	Err    error
}

// Binary is what a rota says of itself (`rota version -o json`).
type Binary struct {
	Version string   `json:"version"`
	Formats *Formats `json:"formats,omitempty"`
}

// Formats are those that a binary reads and writes. It reads older ones too.
type Formats struct {
	// Rules is the newest version of the rules that it knows.
	Rules uint32 `json:"rules_version"`
	// Node, Snapshot and History are the formats of node.json, of snapshots and backups, and of
	// the file of ended jobs and events.
	Node     uint32 `json:"node"`
	Snapshot uint32 `json:"snapshot"`
	History  uint32 `json:"history"`
}

// Result is what a check found.
type Result string

const (
	// OK is nothing to do.
	OK Result = "ok"
	// Warning is worth knowing before, and stands in nobody's way.
	Warning Result = "warning"
	// Blocked stands in the way.
	Blocked Result = "blocked"
)

// Finding is what one check found, of one node or of the cluster.
type Finding struct {
	Check  string      `json:"check"`
	Result Result      `json:"result"`
	Node   rota.NodeID `json:"node,omitempty"`
	Text   string      `json:"text"`
	// Next is what to do; empty where nothing is.
	Next string `json:"next,omitempty"`
}

// Report is all that was found.
type Report struct {
	// Ready says that nothing stands in the way.
	Ready    bool      `json:"ready"`
	Findings []Finding `json:"findings"`
	// Nodes stand in the order in which they are upgraded: those without a vote, those that follow,
	// the leader.
	Nodes []Node `json:"nodes"`
}

// Node is one node of the report.
type Node struct {
	ID      rota.NodeID `json:"id"`
	Version string      `json:"version"`
	// Rules is the newest version of the rules that its binary knows, 0 where it does not answer.
	Rules uint32 `json:"rules_version"`
	Voter bool   `json:"voter"`
	// Leader says that it leads, Done that it runs the new version already.
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
		{"members", (*judge).members}, {"health", (*judge).health}, {"quorum", (*judge).quorum}, {"leader", (*judge).leader},
		{"configuration", (*judge).configuration}, {"log", (*judge).log}, {"digests", (*judge).digests}, {"clocks", (*judge).clocks},
		{"certificates", (*judge).certificates}, {"disk", (*judge).disk}, {"backup", (*judge).backup}, {"mode", (*judge).mode},
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

// judge collects what is found.
type judge struct {
	Facts
	check string
	found []Finding
}

func (j *judge) say(result Result, node rota.NodeID, text, next string) {
	j.found = append(j.found, Finding{Check: j.check, Result: result, Node: node, Text: text, Next: next})
}

// fine says that a check found nothing, unless it has found something.
func (j *judge) fine(text string) {
	if len(j.found) == 0 || j.found[len(j.found)-1].Check != j.check {
		j.say(OK, "", text, "")
	}
}
