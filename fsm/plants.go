package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// plants are bugs that test/bite plants, each by its own build tag, to check that a test catches it. All are off here,
// and the compiler drops the code that they guard. A file plant_*.go, never built without its tag, turns one on by a
// method that takes precedence over the one of sound.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) fencingOff() bool              { return false }
func (sound) expiryWithoutEpoch() bool      { return false }
func (sound) uncappedTick() bool            { return false }
func (sound) childEarly(*flow, uint32) bool { return false }

func (sound) ttlOffset(*state.State) rota.Clock { return 0 }
