package server

import (
	"net"
	"slices"

	"github.com/rotasched/rota/cluster"
)

// Checked is the result of Check for a data directory.
type Checked struct {
	// Absent reports that a start would create it.
	Absent bool
	// Holder names the process that has it open, empty for none. If set, its log and snapshots were not read, and the
	// addresses were not tried.
	Holder string
	// Last is the last entry of its log, Snapshot that of its newest snapshot.
	Last, Snapshot uint64
}

// Check returns all faults that would keep Run from starting the node, as far as this machine can tell; the caller
// checks the flags themselves. It starts nothing and writes nothing; it listens briefly on the node's addresses unless
// the node runs.
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

// malformed reports whether an address is invalid.
func malformed(l listener) bool {
	_, _, err := net.SplitHostPort(l.addr)
	return err != nil
}
