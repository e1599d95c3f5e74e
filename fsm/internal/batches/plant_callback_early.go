//go:build plant_callback_early

package batches

import "github.com/rotasched/rota/fsm/internal/state"

// callbackEarly submits a batch's callback while the last of its jobs is live.
func (plants) callbackEarly(r *state.BatchRow) bool { return r.Counts.Live == 1 }
