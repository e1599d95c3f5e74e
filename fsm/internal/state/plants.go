package state

import "github.com/rotasched/rota"

// plants are the bugs that test/bite plants in this package, each by a build tag, like those of package fsm.
type plants struct{ sound }

type sound struct{}

// Planted is the set of faults in this build: none without a tag.
var Planted plants

func (sound) mapRange() bool                       { return false }
func (sound) silenceForgotten() bool               { return false }
func (sound) DedupeNotInSnapshot() bool            { return false }
func (sound) omits(rota.EventKind) bool            { return false }
func (sound) anyDue(TimerSet, int64) (Timer, bool) { return Timer{}, false }
