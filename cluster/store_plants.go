package cluster

// storePlants are bugs that test/bite plants, each by a build tag of its own, to see
// that it is caught. All are off here, and the compiler drops what they guard; a
// file plant_*.go, never part of a build without its tag, turns one on by a
// method that goes before the one of storeSound.
type storePlants struct{ storeSound }

type storeSound struct{}

var plantedStore storePlants

func (storeSound) noFsync() bool { return false }
func (storeSound) crcOff() bool  { return false }
