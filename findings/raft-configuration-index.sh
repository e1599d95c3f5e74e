#!/usr/bin/env bash
# hashicorp/raft: GetConfiguration().Index() is always 0, which as prevIndex means "no check".
#
# Guess: the future of GetConfiguration returns the index of that configuration, so passing it as prevIndex to
#   AddVoter or RemoveServer makes a read-modify-write of the membership safe against a concurrent change.
# Seen: the index is 0 after any number of changes, while the future of each change has the true one. The library's
#   documentation says that prevIndex 0 compares nothing, so the guard that such a caller relies on is not there.
# Versions: github.com/hashicorp/raft v1.7.3. Date: 2026-11-29.
# Why it matters: two operators or two controllers that replace nodes at once both succeed, and a cluster can end
#   with fewer voters than either intended. Take the index from the future of the membership change instead.
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
	r, _ := start("a")
	r.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}})
	for r.State() != raft.Leader {
		time.Sleep(10 * time.Millisecond)
	}
	read := r.GetConfiguration()
	change := r.AddNonvoter("b", "b", 0, time.Second) // somebody else's change
	if change.Error() != nil {
		panic(change.Error())
	}
	fmt.Println("index", read.Index(), r.GetConfiguration().Index())
	fmt.Println("change", change.Index() > 0)
}
GO
out=$(go_run)
same "index of GetConfiguration before and after a change" "$(grep ^index <<<"$out")" "index 0 0"
same "the future of a change has a true index" "$(grep ^change <<<"$out")" "change true"
