package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/sched"
)

// Header is the state outside the rows: identity, clocks, counters. It is hashed like a row, once per entry.
type Header struct {
	RowMeta
	Cluster     rota.ClusterID
	Incarnation uint64
	// Index is the index of the last applied entry.
	Index rota.Index
	// Term is that of the last BeginTerm; leader is the node that began it.
	Term   uint64
	Leader rota.NodeID
	// Clock is the cluster clock. Invariant I6: it never goes back.
	Clock rota.Clock
	// Leap is how far ahead of the clock an entry may be (SPEC §3.2).
	Leap rota.Clock
	// Offset gives the date: clock + offset. ahead is how far the date is ahead of the median of the wall clocks,
	// reduced at half speed; half stores the odd millisecond.
	Offset int64
	Ahead  int64
	Half   int64
	Mode   rota.ClusterMode
	// Epoch numbers rounds; beacon feeds their seeds.
	Epoch  uint64
	Beacon sched.Hash
	// Tokens, sessions, jobSeq and tombSeq only grow. Invariant I2.
	Tokens   uint64
	Sessions uint64
	JobSeq   uint64
	TombSeq  uint64
	// DroppedTombs counts the tombstones removed by retention or the cap.
	DroppedTombs uint64
	// Logs counts the numbers within tombSeq that belong to attempts' logs (SPEC §22.2).
	Logs uint64
	// ModeReason and modeSince are the reason for the mode and when it began. modeAuto: a leader set it; modeHolds:
	// DEGRADED holds jobs of priority > 5; drained: DRAINING has finished all work (SPEC §4.3, §4.7).
	ModeReason string
	ModeSince  rota.Moment
	ModeAuto   bool
	ModeHolds  bool
	Drained    bool
	// HoldsUntil is when an automatic DEGRADED stops holding jobs (SPEC §4.7); 0 if it has stopped, and in every other
	// mode.
	HoldsUntil rota.Clock
	// TierSeq numbers entries into tiers (SPEC §10.2).
	TierSeq uint64
	// Operations counts all operations ever applied, the unit of audit_retention (SPEC §2.4).
	Operations uint64
	// Chain is the head of the chain over all events (SPEC §12.1). events counts them, which gives each event a
	// position in the order of all events.
	Chain  sched.Hash
	Events uint64
	// FlowSeq numbers workflows.
	FlowSeq uint64
	// Rules is the version of the rules in force (SPEC §2.6); it only grows.
	Rules uint32
	// Anonymous are the roles of callers without a credential; authInit reports whether the first token was created.
	Anonymous []string
	AuthInit  bool
	// Settings are the cluster's settings.
	Settings rota.ClusterSettings
}

// Date returns the date of the cluster: its clock plus the offset.
func (h *Header) Date() rota.Date { return rota.Date(int64(h.Clock) + h.Offset) }

// Now returns the present as clock and date. Now().At gives the date of another clock time.
func (h *Header) Now() rota.Moment { return rota.Moment{Clock: h.Clock, Date: h.Date()} }

// SettingsETag returns the version of the cluster's settings.
func (h *Header) SettingsETag() string { return ClusterETag(&h.Settings) }

// ClusterETag returns the version of the cluster settings, as if_match compares it.
func ClusterETag(c *rota.ClusterSettings) string {
	return EtagOf(func(e *Encoder) {
		e.Int(c.StateBytesMax)
		e.Int(c.VotersWanted)
		e.Bool(c.Autopilot)
	})
}

// Canonical appends the header's canonical form for digests and snapshots.
func (h *Header) Canonical(e *Encoder) {
	e.Str(string(h.Cluster))
	e.Uint(h.Incarnation)
	e.Uint(uint64(h.Index))
	e.Uint(h.Term)
	e.Str(string(h.Leader))
	e.Int(int64(h.Clock))
	e.Int(int64(h.Leap))
	e.Int(h.Offset)
	e.Int(h.Ahead)
	e.Int(h.Half)
	e.Uint(uint64(h.Mode))
	e.Uint(h.Epoch)
	e.B = append(e.B, h.Beacon[:]...)
	for _, v := range []uint64{h.Tokens, h.Sessions, h.JobSeq, h.TombSeq, h.DroppedTombs, h.Logs} {
		e.Uint(v)
	}
	e.Str(h.ModeReason)
	e.Moment(h.ModeSince)
	e.Bool(h.ModeAuto)
	e.Bool(h.ModeHolds)
	e.Bool(h.Drained)
	e.Int(int64(h.HoldsUntil))
	e.Uint(h.TierSeq)
	e.Uint(h.Operations)
	e.B = append(e.B, h.Chain[:]...)
	e.Uint(h.Events)
	e.Uint(h.FlowSeq)
	e.Uint(uint64(h.Rules))
	e.strs(h.Anonymous)
	e.Bool(h.AuthInit)
	e.Int(h.Settings.StateBytesMax)
	e.Int(h.Settings.VotersWanted)
	e.Bool(h.Settings.Autopilot)
}

// DecodeHeader reads what Header.Canonical wrote.
func DecodeHeader(d *Decoder) Header {
	h := Header{Cluster: rota.ClusterID(d.Str()), Incarnation: d.Uint(), Index: rota.Index(d.Uint()), Term: d.Uint(),
		Leader: rota.NodeID(d.Str()), Clock: rota.Clock(d.Int()), Leap: rota.Clock(d.Int()), Offset: d.Int(),
		Ahead: d.Int(), Half: d.Int(), Mode: rota.ClusterMode(d.Enum(uint64(rota.ModeDraining))), Epoch: d.Uint()}
	copy(h.Beacon[:], d.raw(32))
	for _, p := range []*uint64{&h.Tokens, &h.Sessions, &h.JobSeq, &h.TombSeq, &h.DroppedTombs, &h.Logs} {
		*p = d.Uint()
	}
	h.ModeReason = d.Str()
	h.ModeSince = d.Moment()
	h.ModeAuto, h.ModeHolds, h.Drained = d.Bool(), d.Bool(), d.Bool()
	h.HoldsUntil = rota.Clock(d.Int())
	h.TierSeq = d.Uint()
	h.Operations = d.Uint()
	copy(h.Chain[:], d.raw(32))
	h.Events = d.Uint()
	h.FlowSeq = d.Uint()
	h.Rules = uint32(d.Enum(entry.MaxRules))
	h.Anonymous = d.strs()
	h.AuthInit = d.Bool()
	h.Settings = rota.ClusterSettings{StateBytesMax: d.Int(), VotersWanted: d.Int(), Autopilot: d.Bool()}
	return h
}
