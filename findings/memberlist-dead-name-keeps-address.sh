#!/usr/bin/env bash
# hashicorp/memberlist: a crashed node that returns at another address joins without an error and is ignored meanwhile.
#
# Guess: once the others have declared a node dead, a process with its name is accepted at any address.
# Seen: Join returns one contacted node and no error, and the new process lists everybody. The others keep the name bound
#   to the dead address until they forget it, which takes longer than GossipToTheDeadTime (30 s by default):
#   DeadNodeReclaimTime is 0, which disables reclaiming, and does not mean "at once".
# Versions: github.com/hashicorp/memberlist v0.6.0. Date: 2026-11-29.
# Why it matters: a container that is rescheduled with a new address is invisible to its cluster (43 s in one run with the
#   defaults of DefaultLocalConfig) although its join succeeded. Set DeadNodeReclaimTime, or watch what the others list.
. "$(dirname "$0")/lib.sh"
go_modules github.com/hashicorp/memberlist@v0.6.0
cat >main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"log"
	"time"

	"github.com/hashicorp/memberlist"
)

func start(name string, reclaim time.Duration) *memberlist.Memberlist {
	c := memberlist.DefaultLocalConfig()
	c.Name, c.BindAddr, c.BindPort, c.AdvertisePort = name, "127.0.0.1", 0, 0
	c.DeadNodeReclaimTime = reclaim
	c.GossipToTheDeadTime = time.Hour // so that a slow machine does not forget the dead node meanwhile
	c.Logger = log.New(io.Discard, "", 0)
	m, err := memberlist.Create(c)
	if err != nil {
		panic(err)
	}
	return m
}

func join(m, to *memberlist.Memberlist) (int, error) {
	return m.Join([]string{fmt.Sprintf("127.0.0.1:%d", to.LocalNode().Port)})
}

func returns(reclaim time.Duration) {
	a, b := start("a", reclaim), start("b", reclaim)
	if _, err := join(b, a); err != nil {
		panic(err)
	}
	b.Shutdown() // a crash: it does not leave
	for a.NumMembers() > 1 {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
	again := start("b", reclaim)
	n, err := join(again, a)
	time.Sleep(3 * time.Second)
	fmt.Printf("reclaim %v: contacted %d, error %v, it lists %d, the other lists %d\n", reclaim, n, err, again.NumMembers(), a.NumMembers())
	again.Shutdown()
	a.Shutdown()
}

func main() {
	returns(0)
	returns(500 * time.Millisecond)
}
GO
out=$(go_run)
echo "github.com/hashicorp/memberlist v0.6.0"
same "default" "$(grep '^reclaim 0s' <<<"$out")" "reclaim 0s: contacted 1, error <nil>, it lists 2, the other lists 1"
same "with DeadNodeReclaimTime" "$(grep '^reclaim 500ms' <<<"$out")" "reclaim 500ms: contacted 1, error <nil>, it lists 2, the other lists 2"
