package refuse

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// Exhausted returns a refusal that ends with time.
func Exhausted(subject, format string, args ...any) error {
	e := rota.Refusef(rota.KindExhausted, subject, format, args...)
	e.RetryAfter = time.Second
	return e
}

// Leaving refuses to bring jobs to a queue that is being drained.
func Leaving(q *state.QueueRow) *rota.Error {
	return rota.Refusef(rota.KindConflict, "queue",
		"queue %q is being deleted, its jobs move to %q: submit there, or keep it with `rota queue set %s`",
		q.Name, q.DrainTo, q.Name)
}

// NoQueue refuses a queue that does not exist.
func NoQueue(name rota.QueueName) error {
	return rota.Refusef(rota.KindNotFound, "queue", "queue %q does not exist: create it with `rota queue set %s`", name,
		name)
}
