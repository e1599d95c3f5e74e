package state

import (
	"github.com/rotasched/rota"
)

// NodeRow remembers a node id that was ever a member: an id is never used for
// another data directory, and a removed one never comes back.
type NodeRow struct {
	RowMeta
	Id       rota.NodeID
	Api      string
	Raft     string
	Identity string
	Starts   uint64
	Removed  bool
	// Differed is where its state was last told to be wrong (SPEC §2.5).
	Differed rota.Index
}

func (r *NodeRow) Canonical(e *Encoder) {
	e.Str(string(r.Id))
	e.Str(r.Api)
	e.Str(r.Raft)
	e.Str(r.Identity)
	e.Uint(r.Starts)
	e.Bool(r.Removed)
	e.Uint(uint64(r.Differed))
}

func DecodeNode(d *Decoder) *NodeRow {
	return &NodeRow{Id: rota.NodeID(d.Str()), Api: d.Str(), Raft: d.Str(), Identity: d.Str(), Starts: d.Uint(),
		Removed: d.Bool(), Differed: rota.Index(d.Uint())}
}
