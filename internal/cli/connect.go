package cli

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

// With reaches the cluster that --addr names for the time of one piece of work.
func (a *App) With(work func(c *client.Client) error) error {
	c, err := a.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return work(c)
}

// Dial makes a client of --addr, encrypted where --tls-ca or a certificate is
// given. Each call makes its own connections.
func (a *App) Dial() (*client.Client, error) { return a.DialTo(a.Addrs) }

// DialTo returns a client of the given addresses with the flags of this run.
func (a *App) DialTo(addrs []string, more ...client.Option) (*client.Client, error) {
	more = append(more, client.WithRetries(a.retried))
	if a.patience > 0 && !a.TimeoutSet {
		more = append(more, client.WithPatience(a.patience))
	}
	token, err := a.Token()
	if err != nil {
		return nil, err
	}
	if token != nil {
		more = append(more, client.WithTokenFrom(token))
	}
	if a.TLS == (TLSFiles{}) {
		return client.Dial(addrs, append(more, client.WithInsecure())...)
	}
	config, err := a.TLS.Client()
	if err != nil {
		return nil, err
	}
	return client.Dial(addrs, append(more, client.WithTLSFrom(config))...)
}

// ThroughSocket has the command call by the socket of a node's data directory.
func (a *App) ThroughSocket(data string) error {
	path := server.SocketPath(data)
	conn, err := net.Dial("unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Failf("%s is not there: run this where a node runs, with the --data of its rota server", path)
	case errors.Is(err, fs.ErrPermission):
		return &CodedError{ExitDenied, fmt.Errorf("%s: %w: run this as the account that the node runs as, or as root",
			path, fs.ErrPermission)}
	case err != nil:
		return Failf("%s: no node answers: %w", path, err)
	}
	_ = conn.Close()
	a.Addrs = []string{"unix:" + path}
	return nil
}

// maxMute is how long a command that cannot reach the cluster tries without a word.
const maxMute = 2 * time.Second

// retried says, once, that the cluster cannot be reached, and how long that is tried.
func (a *App) retried(r client.FailedTry) {
	if time.Since(r.Began) < maxMute || !a.toldRetry.CompareAndSwap(false, true) {
		return
	}
	until := "retrying without end"
	if !r.Until.IsZero() {
		until = "retrying until " + r.Until.Format(time.TimeOnly) + " (--timeout)"
	}
	why := "no answer from " + r.Address + " yet: " + r.Err.Text
	if _, dialed, ok := strings.Cut(r.Err.Text, "no connection: "); ok {
		why = OneLine("cannot reach " + r.Address + ": " + LastCause(dialed))
	}
	a.Talk("rota: %s; %s", why, until)
}

// LastCause is the end of a chain of errors: what went wrong beneath all else.
func LastCause(text string) string {
	if _, certificate, ok := strings.Cut(text, "x509: "); ok {
		return certificate // with its times behind a colon
	}
	return text[strings.LastIndex(text, ": ")+1:]
}

// Calling wraps a command that makes short calls: --timeout bounds them all.
func (a *App) Calling(work func(ctx context.Context, c *client.Client, args []string) error,
) func(ctx context.Context, args []string) error {
	return func(ctx context.Context, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		return a.With(func(c *client.Client) error { return OutOfTime(ctx, work(ctx, c, args)) })
	}
}

// Waiting wraps a command that waits for what may take long: it ends by
// --timeout only where that was given.
func (a *App) Waiting(work func(ctx context.Context, c *client.Client, args []string) error,
) func(ctx context.Context, args []string) error {
	return func(ctx context.Context, args []string) error {
		if a.TimeoutSet {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.Timeout)
			defer cancel()
		}
		return a.With(func(c *client.Client) error { return OutOfTime(ctx, work(ctx, c, args)) })
	}
}

// OutOfTime names what a context's end did to a call, where the client told it
// in the context's own words. Whoever sent a signal need not be told of it.
func OutOfTime(ctx context.Context, err error) error {
	var refusal *rota.Error
	var coded *CodedError
	var by SignalError
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case errors.As(context.Cause(ctx), &by):
		return &SilentExit{128 + int(by.Signal)}
	case errors.As(err, &refusal):
		return err
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() == context.DeadlineExceeded:
		return &rota.Error{Kind: rota.KindTimeout, Text: "no answer in time", Cause: err}
	default:
		return err
	}
}

// Pause waits, or ends with ctx.
func Pause(ctx context.Context, d time.Duration) error {
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
