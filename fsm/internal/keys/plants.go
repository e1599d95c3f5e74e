package keys

import "github.com/rotasched/rota/fsm/internal/state"

// plants are the bugs that test/bite plants in this package, each by a build tag, like those of package fsm.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) keyNotInSnapshot() bool                   { return false }
func (sound) refundsTwice() bool                       { return false }
func (sound) staysOpen() bool                          { return false }
func (sound) passesHead(*Keyring, state.KeyPlace) bool { return false }
