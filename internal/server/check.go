package server

import (
	"net"
	"slices"

	"github.com/rotasched/rota/cluster"
)

// Checked is what Check found of a data directory.
type Checked struct {
	// Absent reports that a start would make it.
	Absent bool
	// Holder names the process that has it open, empty for none. Its log and snapshots were
	// not read then, nor was it tried whether the addresses are free.
	Holder string
	// Last is the last entry of its log, Snapshot that of its newest snapshot.
	Last, Snapshot uint64
}

// Check returns all that would keep Run from starting the node, as far as this machine alone
// can tell; what is wrong with the flags themselves is the caller's to say. It starts nothing and writes nothing; it listens on the node's addresses for a
// moment unless the node runs.
func Check(plan *Plan) (checked Checked, faults []error) {
	look, faults := cluster.Check(plan.Node)
	checked = Checked{Absent: look.Absent, Holder: look.Holder}
	if r := look.Report; r != nil {
		checked.Last, checked.Snapshot = r.LastIndex, r.SnapshotIndex
	}
	if _, err := connections(openFiles(), plan.Together); err != nil {
		faults = append(faults, err)
	}
	if look.Holder == "" {
		faults = append(faults, tryAll(slices.DeleteFunc(plan.listeners(), malformed)...)...)
	}
	return checked, faults
}

// malformed reports that an address is none.
func malformed(l listener) bool {
	_, _, err := net.SplitHostPort(l.addr)
	return err != nil
}
