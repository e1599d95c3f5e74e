//go:build plant_unique_left_behind

package unique

import "github.com/rotasched/rota"

// uniqueLeftBehind lets jobs whose attempts are used up hold their keys forever.
func (plants) uniqueLeftBehind(s rota.JobState) bool { return s == rota.JobDead }
