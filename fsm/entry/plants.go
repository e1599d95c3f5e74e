package entry

// plants are bugs that test/bite plants, each by a build tag of its own: see plants.go
// of package fsm.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) crcOff() bool { return false }
