package state

import (
	"github.com/rotasched/rota"
)

// NodeRow records a node id that was ever a member: an id is never used for another data directory, and a removed one
// never comes back.
type NodeRow struct {
	RowMeta
	ID       rota.NodeID
	API      string
	Raft     string
	Identity string
	Starts   uint64
	Removed  bool
	// Differed is the last index at which its state was reported to differ (SPEC §2.5).
	Differed rota.Index
}

// Canonical appends the canonical form for digests and snapshots.
func (r *NodeRow) Canonical(e *Encoder) {
	e.Str(string(r.ID))
	e.Str(r.API)
	e.Str(r.Raft)
	e.Str(r.Identity)
	e.Uint(r.Starts)
	e.Bool(r.Removed)
	e.Uint(uint64(r.Differed))
}

// DecodeNode reads what Canonical wrote.
func DecodeNode(d *Decoder) *NodeRow {
	return &NodeRow{ID: rota.NodeID(d.Str()), API: d.Str(), Raft: d.Str(), Identity: d.Str(), Starts: d.Uint(),
		Removed: d.Bool(), Differed: rota.Index(d.Uint())}
}
