package cluster

import (
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
)

// plants are bugs that test/bite inserts, each with its own build tag, to check that the tests catch them. All are off
// here, and the compiler removes the code that they guard. A file plant_*.go, built only with its tag, enables one with
// a method that takes precedence over the one of sound.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) ackBeforeCommit(*launched) bool { return false }
func (sound) uncappedTick() bool             { return false }
func (sound) sameIDRejoin() bool             { return false }

func (sound) nonatomicRestore(*replica.Replica, *fsm.Loader) {}
