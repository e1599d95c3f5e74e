package cluster

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// What nodes of several binaries do together (SPEC §2.6, ADR 0016):
//
//	seal     entries need the version of the rules in force, whatever the leader knows
//	refuse   an operation of a newer version is proposed by nobody
//	switch   the leader puts a newer version into force once every voter knows it
//	stop     a node that does not know what is in force neither starts nor goes on

// errNewer refuses what switches on later; needs is 0 where this binary does not even
// know the operation.
func errNewer(needs, in uint32) error {
	what := "it is of newer rules than this binary knows"
	if needs > 0 {
		what = fmt.Sprintf("it needs rules version %d", needs)
	}
	return rota.Refusef(rota.Conflict, fsm.SubjectRules, "%s, the cluster is at version %d: it switches on when every node runs a "+
		"newer binary (rota cluster status -o wide shows which do not)", what, in)
}

// refuseOlder refuses a node that would stop at the next entry.
func refuseOlder(in rota.Introduction, inForce uint32) error {
	if knows := max(in.RulesVersion, fsm.FirstRules); knows < inForce {
		return rota.Refusef(rota.Conflict, fsm.SubjectRules, "the binary of node %s knows rules version %d, the cluster is at version %d: "+
			"start a newer binary on the same data directory", in.Node, knows, inForce)
	}
	return nil
}

// switchRules puts the newest version that every voter knows into force. Each voter
// is asked now: what it said before may have been another binary's word. One that
// does not answer may know less, so nothing is switched without it.
func (ch *chores) switchRules(l *leadership) {
	in := ch.n.replica.rulesInForce()
	if ch.n.cfg.knows <= in {
		return
	}
	servers := ch.n.membership.servers()
	views := ch.n.watch.inspectAll(servers, nil)
	next, voters := ch.n.cfg.knows, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		id := rota.NodeID(s.ID)
		if id == ch.n.cfg.Node {
			continue
		}
		v := views[id]
		knows := max(v.status.RulesVersion, fsm.FirstRules)
		if v.err != nil {
			knows = in
		}
		if knows <= in && ch.n.lines.Allow("rules/"+string(id)) {
			ch.n.log.Info("newer rules wait for a node", "other_node", string(id), "in_force", in, "known_here", ch.n.cfg.knows, "err", v.err)
		}
		next = min(next, knows)
	}
	if next <= in || voters == 0 {
		return
	}
	err := l.all(l.ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: next}}}})
	if err == nil {
		ch.n.log.Info("newer rules are in force", "version", next, "before", in)
	} else if l.ctx.Err() == nil && ch.n.lines.Allow("rules") {
		ch.n.log.Warn("newer rules were not switched on", "version", next, "err", err)
	}
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
