package entry

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Versions of the rules (SPEC §2.6). Every state says which version is in force.
// Entries are sealed with it, and operations of a newer one are not proposed, so
// that nodes of an older binary go on beside newer ones. Once every voter knows a
// newer version the leader puts it into force by SwitchRules. What changes with a
// version asks m.head.rules, never what the binary knows.
const (
	// RulesVersion is the newest version that this binary knows.
	RulesVersion = 1
	// FirstRules are those that a cluster begins with.
	FirstRules = 1
	// RulesMost is what an envelope has room for.
	RulesMost = 1<<16 - 1
)

// Needs returns the version of the rules that must be in force for an operation to be
// proposed. An operation, or a field of one, that a released binary does not know
// stands here with a newer version.
func Needs(op *fsmpb.Op) uint32 {
	switch op.GetOp().(type) {
	default:
		return FirstRules
	}
}

// TooOld returns the error of a node that meets rules which it does not know.
func TooOld(index rota.Index, needs, knows uint32) *HaltError {
	return &HaltError{Index: index, NewerRules: true,
		Reason: fmt.Sprintf("it needs rules version %d, this binary knows %d", needs, knows)}
}
