// Package rota holds the types that callers of a rota cluster share: jobs, workers, queues, tenants, workflows and
// events, with their states, policies, limits and errors.
//
// Package [github.com/rotasched/rota/client] calls a cluster and runs workers. Begin there:
//
//	c, err := client.DialEnv()
//	...
//	job := rota.NewJobSpec("resize", []byte(`{"width": 640}`))
//	_, err = c.Submit(ctx, job)
//
// Errors are of type [Error]. Test their kind with errors.Is, as in errors.Is(err, rota.ErrNotFound); [RetryAfterOf]
// returns how long to wait. Durations are of type [time.Duration]. Where the cluster's clock decides, a point in time
// is a [Moment]: a [Clock] and a [Date].
//
// The terms are explained in docs/glossary.md; SPEC refers to docs/spec.md.
//
// The package never reads a clock, draws a random number, touches a file or a socket, or starts a goroutine.
package rota
