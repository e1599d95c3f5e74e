package whatif

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// Plan is the question to answer.
type Plan struct {
	Log    Log
	Change Change
	// Since and Until bound the window, 0 for everything that is kept.
	Since, Until rota.Date
	// Progress, if not nil, is called from time to time with how many entries were replayed, each of them up to four
	// times.
	Progress func(done int64)
}

// Run replays a log under another policy: first unchanged, which proves the method; then changed; then unchanged from
// where the changed one diverged, with the driver's own entries, which shows the error of the method. After an error it
// also returns the finished part, marked partial.
func Run(ctx context.Context, plan *Plan) (*Report, error) {
	report := &Report{Partial: true, Histories: []History{}, Winners: []Moved{}, Losers: []Moved{}}
	w, err := open(ctx, plan.Log, plan.Since, plan.Until, plan.Progress)
	if err != nil {
		return report, err
	}
	start, err := w.thaw()
	if err != nil {
		return report, err
	}
	if err := plan.Change.check(start); err != nil {
		return report, err
	}
	report.From, report.To, report.Since = w.after+1, w.last, w.since
	rec, err := report.prove(w, start)
	if err != nil {
		return report, err
	}
	report.history("record", &rec.course, &rec.course)
	changed, err := report.changed(w, rec, &plan.Change)
	if err != nil {
		return report, err
	}
	control := &rec.course
	if report.Parting != nil {
		life, err := again(w, rec, report.Parting.Index)
		if err != nil {
			return report, err
		}
		control = &life.course
	}
	report.history("control", control, &rec.course)
	report.history("what-if", &changed.course, &rec.course)
	report.compare(control, &changed.course)
	report.Partial = false
	return report, nil
}

// prove replays the window unchanged: every decision is made again, and compared with the record.
func (r *Report) prove(w *window, start *fsm.Machine) (*record, error) {
	rec, err := newRecord(newJobs(), start)
	if err != nil {
		return nil, err
	}
	life, err := newLife(w, rec.jobs, &Change{}, rec)
	if err != nil {
		return nil, err
	}
	tied := true
	if err := life.setOut(); err != nil {
		return nil, err
	}
	err = w.each(w.last, func(i rota.Index, term uint64, e *entryOf) error {
		rec.before(i, e.Entry)
		a, err := start.Apply(i, term, e.data)
		if err != nil {
			return err
		}
		if err := rec.entry(e.Entry, &a); err != nil {
			return err
		}
		if r.Until = start.Head().Date; r.Since == 0 {
			r.Since = r.Until
		}
		decisions := assignments(a.Events)
		r.Control.Decisions += decisions
		if tied {
			p, err := life.tied(start, term, e.Entry, &a, true)
			if err != nil {
				return err
			}
			if r.Control.Difference = p; p != nil {
				tied = false
			} else {
				r.Control.Equal += decisions
			}
		}
		start.Recycle(a.Events)
		forget(start)
		return nil
	})
	rec.close()
	r.Control.finished = err == nil
	return rec, err
}

func assignments(events []rota.Event) (n int64) {
	for i := range events {
		if events[i].Kind == rota.EventJobAssigned {
			n++
		}
	}
	return n
}

// changed replays the window under the change.
func (r *Report) changed(w *window, rec *record, change *Change) (*life, error) {
	start, err := w.thaw()
	if err != nil {
		return nil, err
	}
	life, err := newLife(w, rec.jobs, change, rec)
	if err != nil {
		return nil, err
	}
	if err := life.setOut(); err != nil {
		return nil, err
	}
	err = w.each(w.last, func(i rota.Index, term uint64, e *entryOf) error {
		a, err := start.Apply(i, term, e.data)
		if err != nil {
			return err
		}
		r.Parting, err = life.tied(start, term, e.Entry, &a, false)
		if err == nil && r.Parting != nil {
			err = errParted
		}
		start.Recycle(a.Events)
		forget(start)
		return err
	})
	if err == errParted {
		life.part(r.Parting.Index)
		err = life.alone()
	}
	if err != nil {
		return nil, err
	}
	for _, q := range life.pending {
		if _, ok := life.m.Queue(q.Queue); !ok {
			return nil, rota.Refusef(rota.KindNotFound, "set", "there is no queue %q in this stretch of the log",
				q.Queue)
		}
	}
	for _, b := range life.limits {
		if _, ok := fsm.BudgetOf(&life.m.View, b.Name); !ok {
			return nil, rota.Refusef(rota.KindNotFound, "set-budget", "there is no budget %q in this stretch of the log",
				b.Name)
		}
	}
	life.pass(rec.now, len(life.leases))
	return life, nil
}

// again replays the window unchanged up to an entry, and then with the driver's own entries, also unchanged.
func again(w *window, rec *record, parted rota.Index) (*life, error) {
	life, err := newLife(w, rec.jobs, &Change{}, rec)
	if err != nil {
		return nil, err
	}
	err = w.each(parted, func(i rota.Index, term uint64, e *entryOf) error {
		a, err := life.take(i, term, e.data, e.Entry)
		life.m.Recycle(a.Events)
		return err
	})
	if err != nil {
		return nil, err
	}
	life.begun = true
	life.part(parted)
	if err := life.alone(); err != nil {
		return nil, err
	}
	life.pass(rec.now, len(life.leases))
	return life, nil
}

// setOut makes the changes that are due before the first entry, and decides what the entry is to contain.
func (l *life) setOut() error {
	if err := l.changes(); err != nil {
		return err
	}
	return l.prepare()
}
