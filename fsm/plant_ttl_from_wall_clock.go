//go:build plant_ttl_from_wall_clock

package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// ttlOffset counts times to live on the date, which follows wall clocks.
func (plants) ttlOffset(s *state.State) rota.Clock {
	return rota.Clock(s.Header.Date()) - s.Header.Clock
}
