package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/server"
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
	more = append(more, client.WithRetries(a.retried))
	if a.patience > 0 && !a.timeoutSet {
		more = append(more, client.WithPatience(a.patience))
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	if token != nil {
		more = append(more, client.WithTokenFrom(token))
	}
	if a.tls == (tlsFiles{}) {
		return client.Dial(addrs, append(more, client.WithInsecure())...)
	}
	config, err := a.tls.client()
	if err != nil {
		return nil, err
	}
	return client.Dial(addrs, append(more, client.WithTLSFrom(config))...)
}

// throughSocket has the command call by the socket of a node's data directory.
func (a *app) throughSocket(data string) error {
	path := server.SocketPath(data)
	conn, err := net.Dial("unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failf("%s is not there: run this where a node runs, with the --data of its rota server", path)
	case errors.Is(err, fs.ErrPermission):
		return &codedError{exitDenied, fmt.Errorf("%s: %w: run this as the account that the node runs as, or as root", path, fs.ErrPermission)}
	case err != nil:
		return failf("%s: no node answers: %w", path, err)
	}
	_ = conn.Close()
	a.addrs = []string{"unix:" + path}
	return nil
}

// muteMost is how long a command that cannot reach the cluster tries without a word.
const muteMost = 2 * time.Second

// retried says, once, that the cluster cannot be reached, and how long that is tried.
func (a *app) retried(r client.FailedTry) {
	if time.Since(r.Began) < muteMost || !a.toldRetry.CompareAndSwap(false, true) {
		return
	}
	until := "retrying without end"
	if !r.Until.IsZero() {
		until = "retrying until " + r.Until.Format(time.TimeOnly) + " (--timeout)"
	}
	why := "no answer from " + r.Address + " yet: " + r.Err.Text
	if _, dialed, ok := strings.Cut(r.Err.Text, "no connection: "); ok {
		why = oneLine("cannot reach " + r.Address + ": " + lastCause(dialed))
	}
	a.talk("rota: %s; %s", why, until)
}

// lastCause is the end of a chain of errors: what went wrong beneath all else.
func lastCause(text string) string {
	if _, certificate, ok := strings.Cut(text, "x509: "); ok {
		return certificate // with its times behind a colon
	}
	return text[strings.LastIndex(text, ": ")+1:]
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
// in the context's own words. Whoever sent a signal need not be told of it.
func outOfTime(ctx context.Context, err error) error {
	var refusal *rota.Error
	var coded *codedError
	var by signalError
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case errors.As(context.Cause(ctx), &by):
		return &silentExit{128 + int(by.Signal)}
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() == context.DeadlineExceeded:
		return &rota.Error{Kind: rota.KindTimeout, Text: "no answer in time", Cause: err}
	default:
		return err
	}
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
