package whatif

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Log is a kept log, and the state before it.
type Log interface {
	// Base returns the state before the first entry, for the caller to modify. It is called once.
	Base() *fsm.Machine
	// Last returns the index of the last entry.
	Last() rota.Index
	// Entry reads an entry and its term in the log; data is nil if it is not one of the state machine's.
	Entry(index rota.Index) (term uint64, data []byte, err error)
}

// window is the part of a log that is replayed.
type window struct {
	ctx   context.Context
	log   Log
	start *fsm.Frozen // nil before a cluster's first entry
	// after is the entry before the first, last the last one.
	after, last rota.Index
	since       rota.Date // 0 before a cluster's first entry
	// heights are those at which the leaders decided rounds; with are the entries whose rounds were decided with their
	// submissions, by the height.
	heights map[rota.Index]bool
	with    map[rota.Index]rota.Index
	// lag is the usual time from the state that a decision used to the entry of the rounds, in ms.
	lag int64
	// done counts entries, for progress reports.
	progress func(done int64)
	done     int64
}

// patience is the number of entries between progress reports.
const patience = 256

// open finds the window between two dates, of which each may be 0.
func open(ctx context.Context, log Log, since, until rota.Date, progress func(int64)) (*window, error) {
	m := log.Base()
	head := m.Head()
	w := &window{ctx: ctx, log: log, progress: progress, after: head.Index, last: log.Last(),
		heights: make(map[rota.Index]bool), with: make(map[rota.Index]rota.Index)}
	for _, bound := range []struct {
		name string
		date rota.Date
	}{{"since", since}, {"until", until}} {
		if bound.date != 0 && head.Index > 0 && bound.date < head.Date {
			return nil, rota.Refusef(rota.KindOutOfRange, bound.name,
				"the log is kept back to %s (entry %d): %s lies before it", head.Date, head.Index+1, bound.date)
		}
	}
	for since != 0 && m.Head().Date < since {
		if w.after == w.last {
			return nil, rota.Refusef(rota.KindOutOfRange, "since", "the log ends at %s (entry %d): %s lies behind it",
				m.Head().Date, w.last, since)
		}
		if err := w.through(m); err != nil {
			return nil, err
		}
	}
	w.since = m.Head().Date
	if m.Head().Index > 0 {
		w.start = m.Freeze()
		w.start.Archived()
	}
	err := w.scan(m, until)
	return w, err
}

// through applies one more entry to a state, as it is in the log.
func (w *window) through(m *fsm.Machine) error {
	if err := w.pause(); err != nil {
		return err
	}
	w.after++
	term, data, err := w.log.Entry(w.after)
	if err != nil || data == nil {
		return err
	}
	a, err := m.Apply(w.after, term, data)
	if err == nil {
		m.Recycle(a.Events)
		forget(m)
	}
	return err
}

// scan finds where the window ends, and where the leaders decided. With an end date it applies entries up to the end.
func (w *window) scan(m *fsm.Machine, until rota.Date) error {
	begin := w.after
	for until != 0 && w.after < w.last && m.Head().Date < until {
		if err := w.through(m); err != nil {
			return err
		}
	}
	if until != 0 {
		w.last = w.after
	}
	w.after = begin
	return w.findRounds()
}

// stampsKept is how many of the latest entries' stamps are kept.
const stampsKept = 4_096

// findRounds finds where the leaders decided, and how long that took.
func (w *window) findRounds() error {
	var stamps [stampsKept]int64
	var lags []int64
	for i := w.after + 1; i <= w.last; i++ {
		term, data, err := w.log.Entry(i)
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		p, err := entry.Peek(i, data)
		if err != nil {
			return err
		}
		stamps[i%stampsKept] = int64(p.Now)
		for k, r := range p.Rounds {
			if height := rota.Index(r.GetHeight()); r.GetWith() == 0 {
				w.heights[height] = true
				if k == 0 && height > w.after && height+stampsKept > i {
					lags = append(lags, max(0, int64(p.Now)-stamps[height%stampsKept]))
				}
			} else if p.Term == term { // else it is dropped
				w.with[height] = i
			}
		}
	}
	w.lag = median(lags, 0)
	return nil
}

// thaw creates the state before the window again.
func (w *window) thaw() (*fsm.Machine, error) {
	if w.start == nil {
		return fsm.New(), nil
	}
	return w.start.Thaw()
}

// entry reads an entry of the window; e is nil if it is not one of the state machine's.
func (w *window) entry(i rota.Index) (e *fsmpb.Entry, term uint64, data []byte, err error) {
	if err := w.pause(); err != nil {
		return nil, 0, nil, err
	}
	if term, data, err = w.log.Entry(i); err != nil || data == nil {
		return nil, 0, nil, err
	}
	e, err = entry.Open(i, data, entry.RulesVersion, nil)
	return e, term, data, err
}

// entryOf is an entry, and its bytes in the log.
type entryOf struct {
	*fsmpb.Entry
	data []byte
}

// errParted ends a replay when two histories differ.
var errParted = errors.New("the histories part")

// each visits the entries of the window up to one.
func (w *window) each(to rota.Index, visit func(i rota.Index, term uint64, e *entryOf) error) error {
	for i := w.after + 1; i <= to; i++ {
		e, term, data, err := w.entry(i)
		if err == nil && e != nil {
			err = visit(i, term, &entryOf{e, data})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pause reports progress from time to time, and returns an error if the caller has cancelled.
func (w *window) pause() error {
	w.done++
	if w.done%patience == 0 && w.progress != nil {
		w.progress(w.done)
	}
	if err := w.ctx.Err(); err != nil {
		return fmt.Errorf("replay stopped after %d entries: %w", w.done, err)
	}
	return nil
}

// maxForget is how many records of ended jobs are deleted at once.
const maxForget = 512

// forget deletes the records of jobs that have ended: nothing here is archived.
func forget(m *fsm.Machine) {
	if m.Staging().Records < maxForget {
		return
	}
	staged := m.Staged(maxForget, 1<<30)
	seqs := make([]uint64, len(staged))
	for i := range staged {
		seqs[i] = staged[i].Seq
	}
	m.Archived(seqs)
}
