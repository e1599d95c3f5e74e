package cluster

import (
	"errors"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/peer"
)

// What nodes of several binaries do together (SPEC §2.6, ADR 0016):
//
//	seal     entries need the version of the rules in force, whatever the leader knows
//	refuse   an operation of a newer version is proposed by nobody
//	switch   the leader puts a newer version into force once every voter knows it
//	stop     a node that does not know what is in force neither starts nor goes on
//	space    from then on nodes write raft.db as older binaries cannot read it

// spacedRules are the first rules whose binaries all read a spaced log.
const spacedRules = 2

// errNewer refuses what switches on later; needs is 0 where this binary does not even
// know the operation.
func errNewer(needs, in uint32) error {
	what := "it is of newer rules than this binary knows"
	if needs > 0 {
		what = fmt.Sprintf("it needs rules version %d", needs)
	}
	return rota.Refusef(rota.KindConflict, fsm.SubjectRules, "%s, the cluster is at version %d: it switches on when every node runs a "+
		"newer binary (rota cluster status -o wide shows which do not)", what, in)
}

// refuseOlder refuses a node that would stop at the next entry.
func refuseOlder(in peer.Introduction, inForce uint32) error {
	if knows := max(in.RulesVersion, entry.FirstRules); knows < inForce {
		return rota.Refusef(rota.KindConflict, fsm.SubjectRules, "the binary of node %s knows rules version %d, the cluster is at version %d: "+
			"start a newer binary on the same data directory", in.Node, knows, inForce)
	}
	return nil
}

// haltAtNewer ends a node whose state comes as one of rules that it does not know:
// raft would offer it again for ever.
func (rp *replica) haltAtNewer(err error) {
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if e, ok := cause.(*rota.Error); ok && e.Subject == fsm.SubjectRules { // behind what the reader says of it
			rp.n.fatal(err)
			return
		}
	}
}
