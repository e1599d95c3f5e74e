package audit

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/cron"
)

// reckoned is what the state before an entry says of one Fire of it.
type reckoned struct {
	// proved: the Fire goes on where its schedule is decided to, and has the dates that follow.
	proved bool
	// unknown: it was reckoned by other time zones than this binary's, which proves nothing.
	unknown bool
	// differs is how it differs from what any leader may propose.
	differs *rota.AuditDifference
}

// reckon computes again what an entry decides of schedules, before it is applied.
func (a *auditor) reckon(list []entry.PeekedFire) []reckoned {
	some := make([]reckoned, len(list))
	for i, f := range list {
		some[i] = a.reckonOne(f)
	}
	return some
}

func (a *auditor) reckonOne(f entry.PeekedFire) (r reckoned) {
	due, ok := fsm.DueOf(&a.m.View, rota.ScheduleName(f.GetName()))
	if !ok || f.GetVersion() != due.Version {
		return r // it is stale, or not there: the machine refuses it
	}
	if due.State == rota.SchedulePaused { // with this version it was never anything else
		r.differs = &rota.AuditDifference{Logged: fireText(f.GetName(), f.GetDatesMs(), f.GetMissed()), Proved: fmt.Sprintf("schedule %s is paused", f.GetName())}
		return r
	}
	if rota.Date(f.GetFromMs()) != due.Through {
		return r
	}
	table, err := cron.Of(due.Times, due.Set)
	if r.unknown = err != nil || f.GetTzdata() != cron.TZData; r.unknown {
		return r
	}
	dates, missed := cron.Between(table, f.GetFromMs(), f.GetUntilMs(), rota.MaxScheduleDates)
	if r.proved = slices.Equal(dates, f.GetDatesMs()) && uint64(missed) == f.GetMissed(); !r.proved {
		r.differs = &rota.AuditDifference{Logged: fireText(f.GetName(), f.GetDatesMs(), f.GetMissed()), Proved: fireText(f.GetName(), dates, uint64(missed))}
	}
	return r
}

// fires counts what an applied entry decided of schedules, or reports the first Fire that no
// leader may have proposed, or that applied although the state before its entry does not prove it.
func (a *auditor) fires(applied *fsm.Applied, list []entry.PeekedFire, some []reckoned) error {
	for i, f := range list {
		r, refused := some[i], entry.OutcomeError(applied.Outcomes[f.Place]) != nil
		if r.differs == nil && !refused && !r.proved && !r.unknown {
			r.differs = &rota.AuditDifference{Logged: fireText(f.GetName(), f.GetDatesMs(), f.GetMissed()),
				Proved: fmt.Sprintf("schedule %s is not decided through %s before this entry", f.GetName(), rota.Date(f.GetFromMs()))}
		}
		if r.differs != nil {
			r.differs.Index = applied.Index
			a.report.Difference = r.differs
			return errDiffers
		}
		a.report.Fires++
		switch {
		case refused:
			a.report.FiresRefused++
		case r.proved:
			a.report.FiresProved++
		}
	}
	return nil
}

// fireText shows the dates of a schedule to a person.
func fireText(name string, dates []int64, missed uint64) string {
	shown := make([]rota.Date, 0, 10)
	for _, d := range dates[:min(len(dates), cap(shown))] {
		shown = append(shown, rota.Date(d))
	}
	return fmt.Sprintf("schedule %s has %d dates, from %v, and %d before them", name, len(dates), shown, missed)
}
