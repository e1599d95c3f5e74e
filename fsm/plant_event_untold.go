//go:build plant_event_untold

package fsm

import "github.com/rotasched/rota"

// untold leaves one kind of event out, on every node alike.
func (plants) untold(kind rota.EventKind) bool { return kind == rota.EventJobRetryScheduled }
