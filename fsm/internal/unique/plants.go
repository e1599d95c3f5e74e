package unique

import "github.com/rotasched/rota"

// plants are the bugs that test/bite plants in this package, each by a build tag, like those of package fsm.
type plants struct{ sound }

type sound struct{}

var planted plants

func (sound) uniqueLeftBehind(rota.JobState) bool { return false }
