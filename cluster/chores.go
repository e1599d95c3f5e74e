package cluster

import (
	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// switchRules puts the newest version that every voter supports into force. It asks each voter now: an earlier answer
// may have come from another binary. A voter that does not answer may support less, so nothing changes without it.
func (ch *leaderChores) switchRules(l *leadership) {
	in := ch.n.replica.RulesInForce()
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
		knows := max(v.status.RulesVersion, entry.FirstRules)
		if v.err != nil {
			knows = in
		}
		if knows <= in && ch.n.lines.Allow("rules/"+string(id)) {
			ch.n.log.Info("newer rules wait for a node", "other_node", string(id), "in_force", in, "known_here",
				ch.n.cfg.knows, "err", v.err)
		}
		next = min(next, knows)
	}
	if next <= in || voters == 0 {
		return
	}
	err := l.All(l.ctx, []*fsmpb.Op{{Op: &fsmpb.Op_SwitchRules{SwitchRules: &fsmpb.SwitchRules{Version: next}}}})
	if err == nil {
		ch.n.log.Info("newer rules are in force", "version", next, "before", in)
	} else if l.ctx.Err() == nil && ch.n.lines.Allow("rules") {
		ch.n.log.Warn("newer rules were not switched on", "version", next, "err", err)
	}
}

// start starts the leader's loops; each ends with the leadership.
func (ch *leaderChores) start(l *leadership) {
	for _, chore := range []func(){l.collect, l.land,
		func() { ch.matchLoop(l) }, func() { ch.sweepLoop(l) }, func() {
			ch.silenceLoop(l)
		}, func() { ch.n.membership.reconcileLoop(l) },
		func() { ch.n.duties.Degrade(l, ch.n.cfg.AutoDegradeCommitMs, ch.n.cfg.AutoDegradeUsagePermille) },
		func() { ch.n.dates.Loop(l) }, func() { ch.n.hookLag.Loop(l) }, func() { ch.n.duties.Plans(l) },
		func() { ch.n.backups.Loop(l) }, func() { ch.n.autopilot.Loop(l) }} {
		ch.n.run(chore)
	}
}
