package main

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// with reaches the cluster that --addr names for the time of one piece of work.
func (a *app) with(work func(c *client.Client) error) error {
	c, err := a.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return work(c)
}

// dial makes a client of --addr, encrypted where --tls-ca or a certificate is
// given. Each call makes its own connections.
func (a *app) dial() (*client.Client, error) { return a.dialTo(a.addrs) }

func (a *app) dialTo(addrs []string, more ...client.Option) (*client.Client, error) {
	if a.tls == (tlsFiles{}) {
		return client.Dial(addrs, append(more, client.WithInsecure())...)
	}
	config, err := a.tls.client()
	if err != nil {
		return nil, err
	}
	return client.Dial(addrs, append(more, client.WithTLS(config))...)
}

// calling wraps a command that makes short calls: --timeout bounds them all.
func (a *app) calling(work func(ctx context.Context, c *client.Client, args []string) error,
) func(ctx context.Context, args []string) error {
	return func(ctx context.Context, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		return a.with(func(c *client.Client) error { return outOfTime(ctx, work(ctx, c, args)) })
	}
}

// waiting wraps a command that waits for what may take long: it ends by
// --timeout only where that was given.
func (a *app) waiting(work func(ctx context.Context, c *client.Client, args []string) error,
) func(ctx context.Context, args []string) error {
	return func(ctx context.Context, args []string) error {
		if a.timeoutSet {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.timeout)
			defer cancel()
		}
		return a.with(func(c *client.Client) error { return outOfTime(ctx, work(ctx, c, args)) })
	}
}

// outOfTime names what a context's end did to a call, where the client told it
// in the context's own words.
func outOfTime(ctx context.Context, err error) error {
	var refusal *rota.Error
	var coded *codedError
	switch {
	case err == nil || errors.As(err, &refusal) || errors.As(err, &coded):
		return err
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() == context.DeadlineExceeded:
		return &rota.Error{Kind: rota.Timeout, Text: "no answer in time", Cause: err}
	case ctx.Err() != nil:
		return failf("stopped by a signal")
	default:
		return err
	}
}
