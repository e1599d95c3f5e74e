package client

import (
	"context"
	"iter"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// pageRows is how many rows one message lists, unless a limit asks for fewer.
const pageRows = 500

// ReadOption configures a read. By default a read is linearizable: it sees every change that completed before it began.
type ReadOption func(*reading)

// reading holds the options of a read.
type reading struct {
	how  peer.ReadOptions
	seen *rota.ReadAt
	next *string
	by   rota.Principal
}

// Stale reads the state of any node without waiting; the state may lag behind. It works for 30 s without a leader:
// after that a node cannot verify read permissions, and refuses the read as Unavailable.
func Stale() ReadOption { return func(r *reading) { r.how.Stale = true } }

// AtLeast waits until the node has applied index, without asking the leader: the read then sees what an earlier call
// did.
func AtLeast(index rota.Index) ReadOption { return func(r *reading) { r.how.MinIndex = index } }

// Seen sets at to what the read saw: its index and age. A listing sets it before its first item; its later pages are at
// least as new.
func Seen(at *rota.ReadAt) ReadOption { return func(r *reading) { r.seen = at } }

// Next sets cursor when a listing reaches its end or its filter's Limit: use it as the Cursor of the next listing's
// filter. It is empty if nothing is left.
func Next(cursor *string) ReadOption { return func(r *reading) { r.next = cursor } }

// MadeBy restricts a listing of schedules, plans, batches or webhooks to those that one principal created or set last:
// they continue after its credential was revoked. Other reads ignore it.
func MadeBy(p rota.Principal) ReadOption { return func(r *reading) { r.by = p } }

func readingOf(opts []ReadOption) *reading {
	r := &reading{}
	for _, o := range opts {
		o(r)
	}
	return r
}

// saw records what the read saw.
func (r *reading) saw(at *rotav1.ReadAt) {
	if r.seen != nil {
		*r.seen = words.ReadAtFromWire(at)
	}
}

// one makes a call whose answer is one message.
func one[W, T any](ctx context.Context, c *Client, op string, from func(W) (T, error),
	ask func(context.Context, *node) (W, error)) (value T, err error) {
	err = c.call(ctx, op, maxAnswer, func(ctx context.Context, n *node) error {
		wire, err := ask(ctx, n)
		if err != nil {
			return err
		}
		value, err = from(wire)
		return err
	})
	return value, err
}

// read makes a call whose answer is one message that states what it saw.
func read[W interface{ GetAt() *rotav1.ReadAt }, T any](ctx context.Context, c *Client, op string, opts []ReadOption,
	from func(W) (T, error), ask func(context.Context, *node, *rotav1.Read) (W, error)) (T, error) {
	r := readingOf(opts)
	how := words.ReadToWire(r.how)
	return one(ctx, c, op, func(wire W) (T, error) {
		value, err := from(wire)
		if err == nil {
			r.saw(wire.GetAt())
		}
		return value, err
	}, func(ctx context.Context, n *node) (W, error) { return ask(ctx, n, how) })
}

// page is a request for one page of a listing, pageOf its result.
type page struct {
	read   peer.ReadOptions
	limit  int
	cursor string
	by     string
}

type pageOf[T any] struct {
	items []T
	next  string
	at    *rotav1.ReadAt
}

// list returns the rows of all pages from cursor on, at most limit of them (0 for all); each page sees at least what
// the previous one saw, whichever node answers.
func list[T any](ctx context.Context, c *Client, op string, limit int, cursor string, opts []ReadOption,
	ask func(context.Context, *node, page) (pageOf[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := readingOf(opts)
		p := page{read: r.how, cursor: cursor, by: string(r.by)}
		for left, first := limit, true; ; first = false {
			if p.limit = pageRows; limit > 0 {
				p.limit = min(left, limits.MaxPage)
			}
			var got pageOf[T]
			err := c.call(ctx, op, maxAnswer, func(ctx context.Context, n *node) (err error) {
				got, err = ask(ctx, n, p)
				return err
			})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if first {
				r.saw(got.at)
				// Further pages need not ask the leader again; they only wait for that index.
				p.read = peer.ReadOptions{MinIndex: words.ReadAtFromWire(got.at).Index}
			}
			p.cursor, left = got.next, left-len(got.items)
			last := p.cursor == "" || limit > 0 && left <= 0
			if last && r.next != nil {
				*r.next = p.cursor
			}
			for _, item := range got.items {
				if !yield(item, nil) {
					return
				}
			}
			if last {
				return
			}
		}
	}
}

// Collect returns all items of a listing, in order, and the error that ended it.
//
//	queues, err := client.Collect(c.Queues(ctx))
func Collect[T any](listing iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for item, err := range listing {
		if err != nil {
			return all, err
		}
		all = append(all, item)
	}
	return all, nil
}
