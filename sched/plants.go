package sched

// plants are bugs that test/bite plants, each by a build tag of its own, to see
// that it is caught. All are off here, and the compiler drops what they guard; a
// file plant_*.go, never part of a build without its tag, turns one on by a
// method that goes before the one of sound.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) delaysFirst() bool   { return false }
func (sound) planForgotten() bool { return false }
