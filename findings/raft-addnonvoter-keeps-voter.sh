#!/usr/bin/env bash
# hashicorp/raft: AddNonvoter of a server that is a voter succeeds and leaves it a voter.
#
# Guess: AddNonvoter makes the server a non-voter, or returns an error for a server that votes.
# Seen: it returns no error, appends an entry to the log, and the server still votes. RemoveServer and DemoteVoter of an
#   unknown id succeed as well, with an entry each. Only reading the configuration afterwards shows the difference.
# Versions: github.com/hashicorp/raft v1.7.3. Date: 2026-11-29.
# Why it matters: automation that demotes a node before maintenance this way, or removes one by a misspelt id, believes
#   that the quorum became smaller. Compare the configuration after each change with the one that was wanted.
. "$(dirname "$0")/lib.sh"
raft
cat >main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

func main() {
	a, wa := start("a")
	b, wb := start("b")
	wa.Connect("b", wb)
	wb.Connect("a", wa)
	a.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}, {ID: "b", Address: "b"}}})
	var leader *raft.Raft
	var other raft.ServerID
	for leader == nil {
		time.Sleep(10 * time.Millisecond)
		switch {
		case a.State() == raft.Leader:
			leader, other = a, "b"
		case b.State() == raft.Leader:
			leader, other = b, "a"
		}
	}
	last := leader.LastIndex
	before := last()
	err := leader.AddNonvoter(other, raft.ServerAddress(other), 0, time.Second).Error()
	for _, s := range leader.GetConfiguration().Configuration().Servers {
		if s.ID == other {
			fmt.Println("nonvoter", err, s.Suffrage, last() > before)
		}
	}
	before = last()
	fmt.Println("remove", leader.RemoveServer("typo", 0, time.Second).Error(), last() > before)
	before = last()
	fmt.Println("demote", leader.DemoteVoter("typo", 0, time.Second).Error(), last() > before)
}
GO
out=$(go_run)
same "AddNonvoter of a voter: error, suffrage after, entry appended" "$(grep ^nonvoter <<<"$out")" "nonvoter <nil> Voter true"
same "RemoveServer of an unknown id: error, entry appended" "$(grep ^remove <<<"$out")" "remove <nil> true"
same "DemoteVoter of an unknown id: error, entry appended" "$(grep ^demote <<<"$out")" "demote <nil> true"
