//go:build plant_ttl_from_wall_clock

package fsm

import "github.com/rotasched/rota"

// ttlOffset counts times to live on the date, which follows wall clocks.
func (plants) ttlOffset(s *state) rota.Clock { return rota.Clock(s.head.date()) - s.head.clock }
