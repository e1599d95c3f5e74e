package cli

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/guard"
)

// Guarded runs this command as a guard and its worker; it returns false where this system
// has no means for that: then the worker runs without.
func (a *App) Guarded(ctx context.Context) (bool, error) {
	g := guard.Guard{Talk: a.Talk, Gone: a.sayGone}
	code, ran, err := g.Run(ctx)
	switch {
	case errors.Is(err, guard.ErrUnknown):
		return false, Usagef("--guard: %w", err)
	case err != nil:
		return false, Failf("guard the worker: %w", err)
	case code != 0:
		return ran, &SilentExit{code}
	}
	return ran, nil
}

// sayGone tells the cluster that the worker and all that it left have ended.
func (a *App) sayGone(ctx context.Context, who guard.Identity) {
	err := a.With(func(c *client.Client) error { return c.WorkerGone(ctx, who.Worker, who.Session, who.Secret) })
	switch kind := rota.KindOf(err); {
	case err == nil:
		a.Talk("guard: the cluster knows that worker %s is gone: its leases have ended", who.Worker)
	case kind == rota.KindStale || kind == rota.KindNotFound:
		a.Talk("guard: worker %s has no leases in session %d any more", who.Worker, who.Session)
	case errors.Is(err, context.Canceled):
		a.Talk("guard: stopped by a signal: the leases of worker %s end by its silence", who.Worker)
	default:
		a.Talk("guard: could not report the end of worker %s to the cluster, so its leases end by timeout: %v",
			who.Worker, err)
	}
}

// Heard has the guard know the worker's session as soon as the worker does: nothing runs
// before.
func Heard(pipe *guard.Pipe, next func(client.ConnectionEvent)) func(client.ConnectionEvent) {
	return func(e client.ConnectionEvent) {
		pipe.Tell(e.Worker, e.Session)
		next(e)
	}
}
