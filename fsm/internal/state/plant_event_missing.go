//go:build plant_event_missing

package state

import "github.com/rotasched/rota"

// omits leaves one kind of event out, on every node.
func (plants) omits(kind rota.EventKind) bool { return kind == rota.EventJobRetryScheduled }
