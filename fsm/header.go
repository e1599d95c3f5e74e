package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/sched"
)

// header is the state that is no row: identity, clocks, counters. It is hashed
// like a row, once an entry.
type header struct {
	rowMeta
	cluster     rota.ClusterID
	incarnation uint64
	// index is the last applied entry's.
	index rota.Index
	// term is that of the last BeginTerm; leader who began it.
	term   uint64
	leader rota.NodeID
	// clock is the cluster clock. Invariant I6: it never runs back.
	clock rota.Clock
	// leap is how far ahead of the clock an entry may be (SPEC §3.2).
	leap rota.Clock
	// offset makes the date: clock + offset. ahead is by how much the date runs
	// before the median of the wall clocks, worked off at half speed; half keeps
	// the odd millisecond.
	offset int64
	ahead  int64
	half   int64
	mode   rota.ClusterMode
	// epoch numbers rounds; beacon feeds their seeds.
	epoch  uint64
	beacon sched.Hash
	// tokens, sessions, jobSeq, tombSeq only grow. Invariant I2.
	tokens   uint64
	sessions uint64
	jobSeq   uint64
	tombSeq  uint64
	// droppedTombs counts the tombstones that retention or the cap took.
	droppedTombs uint64
	// logs counts the numbers among tombSeq that are those of attempts' logs (SPEC §22.2).
	logs uint64
	// modeReason, modeSince: why the mode is, and since when. modeAuto: a leader set
	// it; modeHolds: DEGRADED holds jobs of priority > 5; drained: DRAINING has
	// worked everything off (SPEC §4.3, §4.7).
	modeReason string
	modeSince  rota.Moment
	modeAuto   bool
	modeHolds  bool
	drained    bool
	// holdsUntil is when an automatic DEGRADED ceases to hold (SPEC §4.7); 0 where it
	// has ceased, and for every other mode.
	holdsUntil rota.Clock
	// tierSeq numbers entries into tiers (SPEC §10.2).
	tierSeq uint64
	// operations counts all operations that were ever applied: what audit_retention
	// is measured in (SPEC §2.4).
	operations uint64
	// chain is the head of the chain over all events (SPEC §12.1); events counts
	// them, so that every event has a place in the order of all.
	chain  sched.Hash
	events uint64
	// flowSeq numbers workflows.
	flowSeq uint64
	// rules is the version of the rules in force (SPEC §2.6); it only grows.
	rules uint32
	// anonymous are the roles of callers without a credential; authInit says that the first
	// token was made.
	anonymous []string
	authInit  bool
	// settings are the cluster's own.
	settings rota.ClusterSettings
}

func (h *header) date() rota.Date { return rota.Date(int64(h.clock) + h.offset) }

// now is the present by both times; now().At tells when another moment of the clock is.
func (h *header) now() rota.Moment { return rota.Moment{Clock: h.clock, Date: h.date()} }

// settingsETag is the version of the cluster's own settings.
func (h *header) settingsETag() string { return clusterETag(&h.settings) }

func clusterETag(c *rota.ClusterSettings) string {
	return etagOf(func(e *encoder) {
		e.int(c.StateBytesMax)
		e.int(c.VotersWanted)
		e.bool(c.Autopilot)
	})
}

func (h *header) canonical(e *encoder) {
	e.str(string(h.cluster))
	e.uint(h.incarnation)
	e.uint(uint64(h.index))
	e.uint(h.term)
	e.str(string(h.leader))
	e.int(int64(h.clock))
	e.int(int64(h.leap))
	e.int(h.offset)
	e.int(h.ahead)
	e.int(h.half)
	e.uint(uint64(h.mode))
	e.uint(h.epoch)
	e.b = append(e.b, h.beacon[:]...)
	for _, v := range []uint64{h.tokens, h.sessions, h.jobSeq, h.tombSeq, h.droppedTombs, h.logs} {
		e.uint(v)
	}
	e.str(h.modeReason)
	e.moment(h.modeSince)
	e.bool(h.modeAuto)
	e.bool(h.modeHolds)
	e.bool(h.drained)
	e.int(int64(h.holdsUntil))
	e.uint(h.tierSeq)
	e.uint(h.operations)
	e.b = append(e.b, h.chain[:]...)
	e.uint(h.events)
	e.uint(h.flowSeq)
	e.uint(uint64(h.rules))
	e.strs(h.anonymous)
	e.bool(h.authInit)
	e.int(h.settings.StateBytesMax)
	e.int(h.settings.VotersWanted)
	e.bool(h.settings.Autopilot)
}

func decodeHeader(d *decoder) header {
	h := header{cluster: rota.ClusterID(d.str()), incarnation: d.uint(), index: rota.Index(d.uint()), term: d.uint(),
		leader: rota.NodeID(d.str()), clock: rota.Clock(d.int()), leap: rota.Clock(d.int()), offset: d.int(), ahead: d.int(), half: d.int(),
		mode: rota.ClusterMode(d.enum(uint64(rota.ModeDraining))), epoch: d.uint()}
	copy(h.beacon[:], d.raw(32))
	for _, p := range []*uint64{&h.tokens, &h.sessions, &h.jobSeq, &h.tombSeq, &h.droppedTombs, &h.logs} {
		*p = d.uint()
	}
	h.modeReason = d.str()
	h.modeSince = d.moment()
	h.modeAuto, h.modeHolds, h.drained = d.bool(), d.bool(), d.bool()
	h.holdsUntil = rota.Clock(d.int())
	h.tierSeq = d.uint()
	h.operations = d.uint()
	copy(h.chain[:], d.raw(32))
	h.events = d.uint()
	h.flowSeq = d.uint()
	h.rules = uint32(d.enum(entry.RulesMost))
	h.anonymous = d.strs()
	h.authInit = d.bool()
	h.settings = rota.ClusterSettings{StateBytesMax: d.int(), VotersWanted: d.int(), Autopilot: d.bool()}
	return h
}
