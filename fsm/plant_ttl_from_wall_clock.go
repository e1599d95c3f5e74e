//go:build plant_ttl_from_wall_clock

package fsm

import "github.com/rotasched/rota"

// ttlOffset counts times to live on the date, which follows wall clocks.
func (plants) ttlOffset(m *Machine) rota.Clock { return rota.Clock(m.head.date()) - m.head.clock }
