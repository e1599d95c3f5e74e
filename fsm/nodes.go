package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// found initializes a cluster: its id, its clock, its default queue.
func (m *Machine) found(op *fsmpb.BeginTerm) *fsmpb.Outcome {
	id := rota.ClusterID(op.GetClusterId())
	if err := rota.CheckID("cluster_id", id); err != nil {
		return entry.Refused(err)
	}
	if err := authz.CheckAnonymous(op.GetAnonymous()); err != nil {
		return entry.Refused(err)
	}
	if leap := op.GetLeapMs(); leap < 0 || leap > int64(limits.VirtualLeapMax) {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "leap_ms", "leap_ms: got %d, want at most %d", leap,
			limits.VirtualLeapMax))
	}
	h := &m.Header
	h.Cluster, h.Incarnation, h.Leap = id, 1, max(rota.Clock(op.GetLeapMs()), limits.ClockLeapMax)
	h.Beacon = sched.FirstBeacon(id)
	h.Anonymous = slices.Clone(op.GetAnonymous())
	h.Clock = 1 // a time of 0 means "never" in every row
	if start := op.GetStartMs(); start > 0 && start < 1<<46 {
		h.Clock = rota.Clock(start)
	}
	m.placement.addQueue(rota.DefaultQueue, rota.StandardPolicy())
	return nil
}

func nextBeacon(beacon sched.Hash, random []byte) sched.Hash {
	var r sched.Hash
	copy(r[:], random)
	return sched.NextBeacon(beacon, r)
}

// setNode records that a node joined, started again, or was removed. An id is never reused for another data directory,
// and a removed one never comes back.
func (m *Machine) setNode(op *fsmpb.SetNode) *fsmpb.Outcome {
	id := rota.NodeID(op.GetId())
	if err := rota.CheckID("node", id); err != nil {
		return entry.Refused(err)
	}
	if longest := max(len(op.GetApi()), len(op.GetRaft()), len(op.GetIdentity())); longest > maxNodeTextBytes {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "node",
			"an address or identity of node %s too long: got %d bytes, maximum %d",
			id, longest, maxNodeTextBytes))
	}
	if len(op.GetReason()) > limits.MaxReasonBytes || op.GetVoters() > rota.MaxVoters {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "node",
			"node: got a reason of %d bytes and %d remaining voters, maximum %d and %d",
			len(op.GetReason()), op.GetVoters(), limits.MaxReasonBytes, rota.MaxVoters))
	}
	old := m.NodeTable.Get(id)
	switch {
	case old == nil && m.NodeTable.Len() >= maxNodesEver:
		return entry.Refused(rota.Refusef(rota.KindExhausted, "node",
			"too many node ids: %d were used, which is the maximum", maxNodesEver))
	case old == nil:
		m.NodeTable.Insert(id, &state.NodeRow{ID: id, API: op.GetApi(), Raft: op.GetRaft(), Identity: op.GetIdentity(),
			Starts: op.GetStarts(), Removed: op.GetRemoved()})
	case op.GetRemoved():
		m.NodeTable.Edit(id).Removed = true
	case old.Removed:
		return entry.Refused(rota.Refusef(rota.KindConflict, "node",
			"node %s was removed: start it on an empty data directory with a new --node id", id))
	case old.Identity != op.GetIdentity():
		return entry.Refused(rota.Refusef(rota.KindConflict, "node",
			"node id %s belongs to another data directory: start with a new --node id on an empty one", id))
	case op.GetStarts() < old.Starts:
		return entry.Refused(rota.Refusef(rota.KindConflict, "node",
			"node %s is at start %d but the cluster saw start %d: this data directory is an old copy", id,
			op.GetStarts(), old.Starts))
	default:
		n := m.NodeTable.Edit(id)
		n.API, n.Raft, n.Starts = op.GetApi(), op.GetRaft(), op.GetStarts()
	}
	m.Journal.Emit(m.nodeChanged(id, op))
	if v := int64(op.GetVoters()); op.GetRemoved() && v != 0 {
		m.admission.lowerVoters(max(v, rota.LeastVotersWanted))
	}
	return &fsmpb.Outcome{}
}

// nodeRemoved is the payload of the event of a removal.
type nodeRemoved struct {
	Removed bool   `json:"removed"`
	Reason  string `json:"reason,omitempty"`
}

// nodeChanged returns the event of a node that joined, started again or was removed; if the operation has a reason, a
// leader removed the node by itself.
func (m *Machine) nodeChanged(id rota.NodeID, op *fsmpb.SetNode) rota.Event {
	e := rota.Event{Kind: rota.EventNodeChanged, Text: string(id)}
	if op.GetRemoved() {
		e.Payload = state.Payload(nodeRemoved{true, op.GetReason()})
		if op.GetReason() != "" && m.Journal.Caller == (access.Caller{}) {
			e.Actor = rota.NodePrincipal(m.Header.Leader)
		}
	}
	return e
}

// lowerVoters lowers the wanted number of voters to what an operator's removal left.
func (ad *admission) lowerVoters(left int64) {
	if s := ad.s.Header.Settings; left < s.VotersWanted {
		s.VotersWanted = left
		ad.changeCluster(s, "")
	}
}

// wantVoters sets the wanted number of voters to what the leader found healthy (SPEC §13.10). Voters removed since then
// do not count: otherwise it would undo the effect of their removal.
func (m *Machine) wantVoters(op *fsmpb.WantVoters) *fsmpb.Outcome {
	if o := m.Internal(); o != nil {
		return o
	}
	if n := len(op.GetVoters()); n > rota.MaxVoters {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "voters", "too many voters: got %d, maximum %d", n,
			rota.MaxVoters))
	}
	healthy := int64(0)
	for i, id := range op.GetVoters() {
		n := m.NodeTable.Get(rota.NodeID(id))
		if n != nil && !n.Removed && !slices.Contains(op.GetVoters()[:i], id) {
			healthy++
		}
	}
	s := m.Header.Settings
	if healthy <= s.VotersWanted {
		return &fsmpb.Outcome{Existed: true}
	}
	s.VotersWanted = healthy
	m.admission.changeCluster(s, rota.NodePrincipal(m.Header.Leader))
	return &fsmpb.Outcome{}
}

// maxNodesEver is the maximum number of node ids ever used, maxNodeTextBytes the maximum size of the addresses and the
// identity of each.
const (
	maxNodesEver     = 10_000
	maxNodeTextBytes = 512
)

// stateDiffers is the payload of that event.
type stateDiffers struct {
	Node  rota.NodeID `json:"node"`
	Index rota.Index  `json:"index"`
}

// nodeDiffers emits an event that a node's state was wrong (SPEC §2.5), once per doubt: nothing is reported again until
// the node was right in between. The row stores it, as a new leader would otherwise report it again.
func (m *Machine) nodeDiffers(op *fsmpb.NodeDiffers) *fsmpb.Outcome {
	if o := m.Internal(); o != nil {
		return o
	}
	id, at, right := rota.NodeID(op.GetNode()), rota.Index(op.GetIndex()), rota.Index(op.GetRightUntil())
	if err := rota.CheckID("node", id); err != nil {
		return entry.Refused(err)
	}
	if at >= m.At || right >= at {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "index",
			"node %s differed at %d and was right until %d, this is entry %d: they are "+
				"wanted in ascending order", id, at, right, m.At))
	}
	old := m.NodeTable.Get(id)
	if old == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "node", "node %s was never a member", id))
	}
	if old.Differed > right {
		return &fsmpb.Outcome{Existed: true}
	}
	m.NodeTable.Edit(id).Differed = at
	m.Journal.Emit(rota.Event{Kind: rota.EventStateDiffers, Text: string(id),
		Payload: state.Payload(stateDiffers{id, at})})
	return &fsmpb.Outcome{}
}

// SubjectRules is the subject of refusals because of the rules version.
const SubjectRules = "rules_version"

// haltAtSwitch stops a node at the switch to rules that it does not know: its state would no longer equal that of the
// others. A refused switch stops no node. It is checked before anything is changed.
func (m *Machine) haltAtSwitch(index rota.Index, e *fsmpb.Entry, term uint64) error {
	if e.GetTerm() != m.Header.Term || term != m.Header.Term {
		return nil
	}
	for _, op := range e.GetOps() {
		if s := op.GetSwitchRules(); s != nil && s.GetVersion() > m.Knows && s.GetVersion() <= entry.MaxRules {
			return entry.TooOld(index, s.GetVersion(), m.Knows)
		}
	}
	return nil
}

// rulesChanged is the payload of that event.
type rulesChanged struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// switchRules puts newer rules into force. Versions may be skipped: a binary that knows one knows all before it.
func (m *Machine) switchRules(op *fsmpb.SwitchRules) *fsmpb.Outcome {
	if o := m.Internal(); o != nil {
		return o
	}
	from, to := m.Header.Rules, op.GetVersion()
	switch {
	case to > entry.MaxRules:
		return entry.Refused(rota.Refusef(rota.KindInvalid, SubjectRules, "rules version: got %d, want %d to %d", to,
			entry.FirstRules, entry.MaxRules))
	case to == from:
		return &fsmpb.Outcome{Existed: true}
	case to < from:
		return entry.Refused(rota.Refusef(rota.KindConflict, SubjectRules,
			"rules version %d is in force: it never goes back to %d", from, to))
	}
	m.Header.Rules = to
	m.Journal.Emit(rota.Event{Kind: rota.EventRulesChanged, Payload: state.Payload(rulesChanged{from, to})})
	return &fsmpb.Outcome{}
}

// rules checks the version in force.
func (c *checker) rules() {
	if v := c.m.Header.Rules; v < entry.FirstRules || v > c.m.Knows {
		c.fault("rules of version %d are in force, this binary knows %d to %d", v, entry.FirstRules, c.m.Knows)
	}
}

// backupStored is the payload of that event.
type backupStored struct {
	Index  rota.Index `json:"index"`
	Name   string     `json:"name"`
	SHA256 string     `json:"sha256"`
	Bytes  int64      `json:"bytes"`
}

// storedBackup records that the leader stored a backup. A backup of an older state than the last changes nothing: its
// report was late.
func (m *Machine) storedBackup(op *fsmpb.BackupStored) *fsmpb.Outcome {
	if o := m.Internal(); o != nil {
		return o
	}
	index, name := rota.Index(op.GetIndex()), op.GetName()
	switch {
	case index == 0 || index >= m.At:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "index",
			"index: got a backup of index %d in entry %d; it must be earlier", index, m.At))
	case name == "" || len(name) > limits.MaxBackupNameBytes || !ascii(name):
		return entry.Refused(rota.Refusef(rota.KindInvalid, "name",
			"name: got %d bytes for a backup, want 1 to %d of ASCII", len(name),
			limits.MaxBackupNameBytes))
	case len(op.GetSha256()) != sha256.Size:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "sha256", "sha256: got %d bytes for a backup, want %d",
			len(op.GetSha256()), sha256.Size))
	case op.GetBytes() == 0 || op.GetBytes() > math.MaxInt64:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "bytes", "bytes: got %d for a backup, want 1 to %d",
			op.GetBytes(), int64(math.MaxInt64)))
	}
	last := m.BackupTable.Get("")
	if last != nil && (index < last.Index || index == last.Index && bytes.Equal(last.Sum[:], op.GetSha256())) {
		return &fsmpb.Outcome{Existed: true}
	}
	r := &state.BackupRow{Index: index, Entry: m.At, Whole: index == m.At-1 && m.alone, At: m.Header.Now(), Name: name,
		Bytes: int64(op.GetBytes())}
	copy(r.Sum[:], op.GetSha256())
	if last != nil {
		m.BackupTable.Drop("")
	}
	m.BackupTable.Insert("", r)
	m.Journal.Emit(rota.Event{Kind: rota.EventBackupStored, Payload: state.Payload(backupStored{index, name,
		hex.EncodeToString(r.Sum[:]), r.Bytes})})
	return &fsmpb.Outcome{}
}

// LastBackup returns the last backup that a leader stored, and whether it contains everything written since; ok is
// false if there is none.
func LastBackup(vw *View) (b rota.StoredBackup, whole, ok bool) {
	r := vw.m.BackupTable.Get("")
	if r == nil {
		return b, false, false
	}
	return rota.StoredBackup{Index: r.Index, Date: r.At.Date, Name: r.Name, SHA256: bytes.Clone(r.Sum[:]),
		Bytes: r.Bytes}, r.Whole && r.Entry == vw.m.Header.Index, true
}

// backups checks the row of the last backup.
func (c *checker) backups() {
	h := &c.m.Header
	c.m.BackupTable.Scan(func(key string, r *state.BackupRow) bool {
		if r.Index == 0 || r.Index >= r.Entry || r.Entry > h.Index || r.Name == "" || r.Bytes <= 0 || r.Whole &&
			r.Index != r.Entry-1 {
			c.fault("the backup %q of index %d, told of by entry %d of %d, is unsound", r.Name, r.Index, r.Entry,
				h.Index)
		}
		if r.At.Clock > h.Clock {
			c.fault("I6: the backup is of %d, after the clock", r.At.Clock)
		}
		return true
	})
}
