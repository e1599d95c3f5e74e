package fsm

import "github.com/rotasched/rota/fsm/fsmpb"

// preempt revokes leases of background jobs for a critical one (SPEC §7.9).
func (m *Machine) preempt(op *fsmpb.Preempt, epoch uint64) {}
