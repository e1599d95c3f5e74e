package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Events returns the events that a filter selects, in the order in which they happened (SPEC §12.3). It starts after
// filter.After, or at the oldest retained event, and ends at the last event acknowledged when the call is made; with
// Follow it continues until ctx ends. When its node fails, it continues at another node after the last event, without a
// gap or a repeat.
//
// Errors: Invalid for an event that never existed; OutOfRange for an event of the future or older than the retained
// ones (the text names the oldest); Exhausted for a consumer that is too slow. With Follow, the end of ctx is reported
// as Timeout.
func (c *Client) Events(ctx context.Context, filter rota.EventFilter) iter.Seq2[rota.ServedEvent, error] {
	return func(yield func(rota.ServedEvent, error) bool) {
		err := c.tail(ctx, filter, func(events []rota.ServedEvent) error {
			for _, e := range events {
				if !yield(e, nil) {
					return errBroken
				}
			}
			return nil
		})
		if err != nil && err != errBroken {
			yield(rota.ServedEvent{}, err)
		}
	}
}

// tail calls f with the events, from one goroutine; an error of f ends the call and is returned.
func (c *Client) tail(ctx context.Context, filter rota.EventFilter, f func([]rota.ServedEvent) error) error {
	var last *rota.Error
	began := time.Now()
	for try := 0; ; try++ {
		n := c.present()
		before := filter.After
		err := n.tail(ctx, &filter, f)
		if err == nil {
			return nil
		}
		var own *doneError
		if errors.As(err, &own) {
			return own.err
		}
		if filter.After != before {
			try, last, began = 0, nil, time.Now()
		}
		e := judge(ctx, n, err)
		switch {
		case c.life.Err() != nil:
			return &rota.Error{Kind: rota.KindUnavailable, Op: "tail events", Text: "the client is closed"}
		case ended(ctx) && (last == nil || errors.Is(ctx.Err(), context.Canceled)):
			return &rota.Error{Kind: rota.KindTimeout, Op: "tail events", Text: "cancelled by the caller",
				Cause: endOf(ctx)}
		case ended(ctx):
			return c.gaveUp(ctx, "tail events", last)
		case e.Kind != rota.KindUnavailable && e.Kind != rota.KindTimeout:
			return during("tail events", e)
		}
		last = e
		c.moveOn(n)
		c.retrying(ctx, "tail events", n, began, e)
		c.log.Debug("events broke off, going on elsewhere", "node", n.address, "after", filter.After.String(), "err", e)
		if !pause(ctx, retryDelay(try, e.RetryAfter)) {
			return c.gaveUp(ctx, "tail events", last)
		}
	}
}

// tail follows one node and advances the filter with every event received. It returns nil only if the node has sent all
// events.
func (n *node) tail(ctx context.Context, filter *rota.EventFilter, f func([]rota.ServedEvent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.events.Tail(ctx, words.TailToWire(filter))
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if filter.Follow {
				return rota.Refusef(rota.KindUnavailable, "", "the stream ended")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := deliver(m, filter, f); err != nil {
			return err
		}
	}
}

// deliver passes a message on, without events that f already got: nodes send none twice, and if one did, the caller
// would not see it. If the node searched beyond its last event, the filter moves there, so that the next node starts at
// that point.
func deliver(m *rotav1.EventBatch, filter *rota.EventFilter, f func([]rota.ServedEvent) error) error {
	scanned, err := rota.ParseEventID(m.GetScanned())
	if err != nil {
		return err
	}
	events := make([]rota.ServedEvent, 0, len(m.GetEvents()))
	for _, w := range m.GetEvents() {
		e, err := words.EventFromWire(w)
		if err != nil {
			return err
		}
		if e.ID.Compare(filter.After) > 0 {
			events = append(events, e)
			filter.After = e.ID
		}
	}
	if len(events) > 0 {
		if err := f(events); err != nil {
			return &doneError{err}
		}
	}
	if scanned.Compare(filter.After) > 0 {
		filter.After = scanned
	}
	return nil
}
