package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

const (
	// judgeEvery is how often the node and the callers of streams are checked again: a caller that lost its right is
	// cut off within twice that time (SECURITY §5.4).
	judgeEvery = time.Second
	// rightsKept bounds the cached rights.
	rightsKept = 4_096
)

// desk caches rights, and the streams whose callers are checked again.
type desk struct {
	mu    sync.Mutex
	table access.Table
	known map[rota.Principal]*access.Rights
	live  map[*liveStream]struct{}
}

type liveStream struct {
	pass *pass
	end  context.CancelCauseFunc
}

// rights returns a principal's rights according to a table. Rights of a token or a session also end by date, and are
// calculated each time.
func (d *desk) rights(table access.Table, p rota.Principal, date rota.Date) (*access.Rights, error) {
	_, token := p.Token()
	if _, _, session := p.Session(); token || session {
		return table.Rights(p, date)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.table != table || len(d.known) >= rightsKept {
		d.table, d.known = table, make(map[rota.Principal]*access.Rights)
	}
	if r := d.known[p]; r != nil {
		return r, nil
	}
	r, err := table.Rights(p, date)
	if err == nil {
		d.known[p] = r
	}
	return r, err
}

// enter has the caller of a stream checked again until leave is called.
func (d *desk) enter(ctx context.Context, p *pass) (inner context.Context, leave func()) {
	inner, end := context.WithCancelCause(ctx)
	if p.need.anybody || p.need.members {
		return inner, func() { end(nil) }
	}
	l := &liveStream{pass: p, end: end}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live == nil {
		d.live = make(map[*liveStream]struct{})
	}
	d.live[l] = struct{}{}
	return inner, func() {
		end(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.live, l)
	}
}

// watch checks the callers of streams again until the server ends.
func (d *desk) watch(s *Server) {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.again(s)
		case <-s.life.Done():
			return
		}
	}
}

// again ends the streams whose callers have lost their right, and all streams of the node's state if no leader confirms
// that any longer.
func (d *desk) again(s *Server) {
	unvouched := s.options.Core.Vouched()
	d.mu.Lock()
	all := make([]*liveStream, 0, len(d.live))
	for l := range d.live {
		all = append(all, l)
	}
	d.mu.Unlock()
	for _, l := range all {
		if unvouched != nil && !l.pass.need.alone {
			l.end(&cutOff{unvouched})
			continue
		}
		p := *l.pass // its call reads its own
		if err := s.judge(&p); err != nil && s.options.Core.Access() != nil {
			l.end(&cutOff{err})
		}
	}
}

// cutOff is the reason that the desk ended a stream.
type cutOff struct{ error }

// Unwrap returns the error that its caller receives.
func (c *cutOff) Unwrap() error { return c.error }

// wasCutOff returns why the desk ended a stream, nil if it did not.
func wasCutOff(ctx context.Context) error {
	if c, ok := errors.AsType[*cutOff](context.Cause(ctx)); ok {
		return c.error
	}
	return nil
}
