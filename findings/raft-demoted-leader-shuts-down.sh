#!/usr/bin/env bash
# hashicorp/raft: a leader that demotes itself shuts down, although it is still a member.
#
# Guess: DemoteVoter of the leader makes it step down and follow as a non-voter. ShutdownOnRemove, true by default,
#   concerns servers that are removed.
# Seen: the library shuts the demoted leader down for good (State is Shutdown), while the configuration lists it as a
#   Nonvoter. A follower that is demoted goes on.
# Versions: github.com/hashicorp/raft v1.7.3. Date: 2026-11-29.
# Why it matters: a rolling maintenance that demotes nodes one by one loses the replica that led at that moment, and the
#   process around it keeps running without one. Transfer leadership first, or set ShutdownOnRemove to false.
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
	ids := []raft.ServerID{"a", "b", "c"}
	nodes, wires := map[raft.ServerID]*raft.Raft{}, map[raft.ServerID]*raft.InmemTransport{}
	var all raft.Configuration
	for _, id := range ids {
		nodes[id], wires[id] = start(id)
		all.Servers = append(all.Servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
	}
	for from := range wires {
		for to := range wires {
			wires[from].Connect(raft.ServerAddress(to), wires[to])
		}
	}
	nodes["a"].BootstrapCluster(all)
	leader := func() raft.ServerID {
		for {
			for id, r := range nodes {
				if r.State() == raft.Leader {
					return id
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	old := leader()
	fmt.Println("demote", nodes[old].DemoteVoter(old, 0, 5*time.Second).Error())
	for range 300 {
		if nodes[old].State() == raft.Shutdown {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	next := leader()
	for _, s := range nodes[next].GetConfiguration().Configuration().Servers {
		if s.ID == old {
			fmt.Println("leader", nodes[old].State(), s.Suffrage)
		}
	}
	for _, id := range ids {
		if id != old && id != next {
			err := nodes[next].DemoteVoter(id, 0, 5*time.Second).Error()
			time.Sleep(time.Second)
			fmt.Println("follower", err, nodes[id].State())
		}
	}
}
GO
out=$(go_run)
same "DemoteVoter of the leader by itself" "$(grep ^demote <<<"$out")" "demote <nil>"
same "its state and its suffrage afterwards" "$(grep ^leader <<<"$out")" "leader Shutdown Nonvoter"
same "a demoted follower" "$(grep ^follower <<<"$out")" "follower <nil> Follower"
