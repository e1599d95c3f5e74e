package fault

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/peer"
)

// How nodes with different binaries work together (SPEC §2.6, ADR 0016):
//
//	seal     entries need the version of the rules in force, whatever the leader supports
//	refuse   no node proposes an operation of a newer version
//	switch   the leader puts a newer version into force once every voter supports it
//	stop     a node that does not support the rules in force neither starts nor continues
//	move     from the next start on, a node has its log in files that older binaries cannot read

// Newer returns the error for an operation of a later version; needs is 0 if this binary does not know the operation
// at all.
func Newer(needs, in uint32) error {
	what := "it is of newer rules than this binary knows"
	if needs > 0 {
		what = fmt.Sprintf("it needs rules version %d", needs)
	}
	return rota.Refusef(rota.KindConflict, fsm.SubjectRules,
		"%s, the cluster is at version %d. It switches on when every node runs a "+
			"newer binary (rota cluster status -o wide shows the others)", what, in)
}

// Older rejects a node that would stop at the next entry.
func Older(in peer.Introduction, inForce uint32) error {
	if knows := max(in.RulesVersion, entry.FirstRules); knows < inForce {
		return rota.Refusef(rota.KindConflict, fsm.SubjectRules,
			"the binary of node %s knows rules version %d, the cluster is at version %d: "+
				"start a newer binary on the same data directory", in.Node, knows, inForce)
	}
	return nil
}
