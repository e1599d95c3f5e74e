package upgrade

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// maxLag is how many entries a node may be behind the most advanced one: more than a busy cluster has in flight, and a
// node that restarts has to catch up on all of them.
const maxLag = 10_000

// States of nodes that do not serve.
const (
	unreachable = "UNREACHABLE"
	rebuilding  = "REBUILDING"
)

// members reports which nodes do not answer: this process, and the node that was asked.
func (j *judge) members() {
	for _, n := range j.Status.Nodes {
		answer, asked := j.Answers[n.ID]
		switch {
		case n.State == unreachable && (!asked || answer.Err != nil):
			j.say(Blocked, n.ID, "does not answer", "start it, or remove it: rota operator raft remove-peer "+
				string(n.ID))
		case n.State == unreachable:
			j.say(Blocked, n.ID, "answers here, and not the node that was asked", "fix the network between the nodes")
		case asked && answer.Err != nil:
			j.say(Blocked, n.ID, "does not answer here, though other nodes reach it: "+answer.Err.Error(),
				"ask from where all nodes can be reached, or fix the network")
		}
		for _, seen := range answer.Status.Nodes {
			if seen.State == unreachable && n.State != unreachable && j.reached(seen.ID) {
				j.say(Blocked, n.ID, "does not reach "+string(seen.ID), "fix the network between the two")
			}
		}
	}
	j.fine(fmt.Sprintf("all %d answer", len(j.Status.Nodes)))
}

// reached reports whether the node that was asked reaches another one.
func (j *judge) reached(id rota.NodeID) bool {
	return slices.ContainsFunc(j.Status.Nodes, func(n rota.NodeStatus) bool {
		return n.ID == id && n.State != unreachable
	})
}

// answering returns the nodes that answer the one that was asked.
func (j *judge) answering() []rota.NodeStatus {
	return slices.DeleteFunc(slices.Clone(j.Status.Nodes),
		func(n rota.NodeStatus) bool { return n.State == unreachable })
}

// health passes on the problems that the nodes report about themselves.
func (j *judge) health() {
	for _, n := range j.answering() {
		switch {
		case n.State == rebuilding:
			j.say(Blocked, n.ID, "its state was wrong and is being rebuilt",
				"wait until it serves again, and keep the other nodes up")
		case !n.Healthy:
			j.say(Blocked, n.ID, strings.Join(n.Problems, "; "), "fix that first")
		case len(n.Problems) > 0:
			j.say(Warning, n.ID, strings.Join(n.Problems, "; "), "")
		}
	}
	j.fine("no node finds anything wrong with itself")
}

// quorum reports whether a majority is left while one voter is down.
func (j *judge) quorum() {
	voters, up := 0, 0
	for _, n := range j.Status.Nodes {
		if n.Voter {
			if voters++; n.State != unreachable && n.State != rebuilding {
				up++
			}
		}
	}
	majority := voters/2 + 1
	switch {
	case voters < 3:
		j.say(Blocked, "", fmt.Sprintf(
			"with one of %s down no majority is left: nothing is admitted or leased until it is back",
			plural(voters, "voter")),
			"add nodes until there are three voters, or take a backup and accept the pause: rota operator snapshot save")
	case up-1 < majority:
		j.say(Blocked, "", fmt.Sprintf("%d of %d voters are up, and a majority is %d: none can be spared", up, voters,
			majority),
			"bring the others back first")
	}
	j.fine(fmt.Sprintf("%d voters: with one down %d are left, and a majority is %d", voters, up-1, majority))
}

// leader reports whether all nodes follow one leader.
func (j *judge) leader() {
	if j.Status.Leader == "" {
		j.say(Blocked, "", "the cluster has no leader", "see docs/runbooks/RotaNoLeader.md")
	}
	for _, n := range j.answering() {
		if a := j.Answers[n.ID]; a.Err == nil && a.Status.Leader != j.Status.Leader && a.Status.ClusterID != "" {
			j.say(Blocked, n.ID, fmt.Sprintf("follows %s, the others %s", or(a.Status.Leader), or(j.Status.Leader)),
				"wait for the election to end and check again")
		}
	}
	j.fine(fmt.Sprintf("%s leads term %d", j.Status.Leader, j.Status.Term))
}

func or(id rota.NodeID) string { return cmp.Or(string(id), "none") }

// configuration reports whether nodes are being added to or removed from the configuration.
func (j *judge) configuration() {
	for _, n := range j.Status.Nodes {
		if !n.Voter && !n.NonVoter && n.State != unreachable {
			j.say(Blocked, n.ID, "is on its way to a vote", "wait until it is a voter: rota operator raft list-peers")
		}
	}
	for _, p := range j.Peers {
		if !slices.ContainsFunc(j.Status.Nodes, func(n rota.NodeStatus) bool { return n.ID == p.ID }) {
			j.say(Blocked, p.ID, "came to the configuration just now", "check again in a moment")
		}
	}
	auto := j.Status.Autopilot
	silent := slices.ContainsFunc(j.Status.Nodes, func(n rota.NodeStatus) bool {
		return n.Voter && n.State == unreachable
	})
	if auto.Text != "" && silent {
		j.say(Blocked, "", "the leader reports: "+auto.Text,
			"bring silent voters back, or replace them: docs/operations/replace-a-node.md")
	}
	if voters := int64(len(slices.DeleteFunc(slices.Clone(j.Status.Nodes),
		func(n rota.NodeStatus) bool { return !n.Voter }))); voters < auto.VotersWanted {
		j.say(Warning, "", fmt.Sprintf("got %d voters, want %d", voters, auto.VotersWanted),
			"add nodes, or lower voters_wanted: rota cluster set voters_wanted="+fmt.Sprint(voters))
	}
	j.fine("no node is being added or removed")
}

// log reports which nodes lag behind.
func (j *judge) log() {
	var furthest rota.Index
	for _, n := range j.answering() {
		furthest = max(furthest, n.AppliedIndex)
	}
	for _, n := range j.answering() {
		if behind := furthest - n.AppliedIndex; behind > maxLag {
			j.say(Blocked, n.ID, fmt.Sprintf("is %d entries behind", behind),
				"wait until it has caught up; its disk or network may be slow")
		}
	}
	j.fine(fmt.Sprintf("all have applied the log up to about %d", furthest))
}

// digests compares the states of nodes at indexes for which several of them reported a digest.
func (j *judge) digests() {
	type at struct {
		index  rota.Index
		digest rota.Digest
		node   rota.NodeID
	}
	said := make(map[rota.Index]at)
	compared := make(map[rota.NodeID]bool)
	statuses := []rota.ClusterStatus{j.Status}
	for _, id := range sortedKeys(j.Answers) {
		statuses = append(statuses, j.Answers[id].Status)
	}
	for _, s := range statuses {
		for _, n := range s.Nodes {
			if n.State == unreachable || n.State == rebuilding || n.AppliedIndex == 0 || n.Digest == (rota.Digest{}) {
				continue
			}
			first, known := said[n.AppliedIndex]
			switch {
			case !known:
				said[n.AppliedIndex] = at{n.AppliedIndex, n.Digest, n.ID}
			case first.digest != n.Digest && !compared[n.ID]:
				j.say(Blocked, n.ID, fmt.Sprintf("its state differs from that of %s at index %d", first.node,
					n.AppliedIndex),
					"keep all nodes up until the one that is wrong has rebuilt itself; then rota operator verify")
				fallthrough
			case first.node != n.ID:
				compared[n.ID], compared[first.node] = true, true
			}
		}
	}
	for _, n := range j.answering() {
		if !compared[n.ID] && len(j.answering()) > 1 {
			j.say(OK, n.ID, "was not seen at one index with another node; nodes compare their states each second themselves",
				"rota operator verify compares them now")
		}
	}
	j.fine("the nodes' states are equal")
}

func sortedKeys[V any](m map[rota.NodeID]V) []rota.NodeID {
	keys := make([]rota.NodeID, 0, len(m))
	for id := range m {
		keys = append(keys, id)
	}
	slices.Sort(keys)
	return keys
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// order returns the nodes in the order in which they are upgraded.
func (j *judge) order() []Node {
	rank := func(n Node) int {
		switch {
		case n.Leader:
			return 2
		case n.Voter:
			return 1
		}
		return 0
	}
	nodes := []Node{}
	for _, n := range j.Status.Nodes {
		nodes = append(nodes, Node{ID: n.ID, Version: n.Version, Rules: n.RulesVersion, Voter: n.Voter,
			Leader: n.ID == j.Status.Leader,
			Done:   j.To != nil && n.Version == j.To.Version})
	}
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.ID, b.ID)) })
	return nodes
}
