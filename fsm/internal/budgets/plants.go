package budgets

// plants are the bugs that test/bite plants in this package, each by a build tag, like those of package fsm.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) turnsTwice() bool { return false }
func (sound) booksTwice() bool { return false }
