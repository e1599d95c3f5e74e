package state

import "github.com/rotasched/rota"

// groundPlants are the bugs that test/bite plants in the ground, as those of plants are.
type groundPlants struct{ groundSound }

type groundSound struct{}

var PlantedGround groundPlants

func (groundSound) mapRange() bool                       { return false }
func (groundSound) silenceForgotten() bool               { return false }
func (groundSound) DedupeNotInSnapshot() bool            { return false }
func (groundSound) omits(rota.EventKind) bool            { return false }
func (groundSound) anyDue(TimerSet, int64) (Timer, bool) { return Timer{}, false }
