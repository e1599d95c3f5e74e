package audit

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/cron"
)

// recalculated is the result of checking one Fire of an entry against the state before the entry.
type recalculated struct {
	// proved: the Fire continues where its schedule was decided up to, and has the dates that follow.
	proved bool
	// unknown: it was calculated with other time zones than this binary's, which proves nothing.
	unknown bool
	// differs describes how it differs from what any leader may propose, nil if it does not.
	differs *rota.AuditDifference
}

// recalculate recalculates an entry's schedule decisions, before the entry is applied.
func (a *auditor) recalculate(list []entry.PeekedFire) []recalculated {
	some := make([]recalculated, len(list))
	for i, f := range list {
		some[i] = a.reckonOne(f)
	}
	return some
}

func (a *auditor) reckonOne(f entry.PeekedFire) (r recalculated) {
	due, ok := fsm.DueOf(&a.m.View, rota.ScheduleName(f.GetName()))
	if !ok || f.GetVersion() != due.Version {
		return r // stale or missing: the machine rejects it
	}
	if due.State == rota.SchedulePaused { // with this version it never was anything else
		r.differs = &rota.AuditDifference{Logged: fireText(f.GetName(), f.GetDatesMs(), f.GetMissed()),
			Proved: fmt.Sprintf("schedule %s is paused", f.GetName())}
		return r
	}
	if rota.Date(f.GetFromMs()) != due.Through {
		return r
	}
	zones, err := a.zonesInForce()
	if err != nil || f.GetTzdata() != zones.Name() {
		_, _, installed := fsm.InstalledTZData(&a.m.View)
		r.unknown = err != nil || !installed // with other zones than the installed ones, the machine rejects it
		return r
	}
	table, err := zones.Of(due.Times, due.Set)
	if r.unknown = err != nil; r.unknown {
		return r
	}
	dates, missed := cron.Between(table, f.GetFromMs(), f.GetUntilMs(), rota.MaxScheduleDates)
	if r.proved = slices.Equal(dates, f.GetDatesMs()) && uint64(missed) == f.GetMissed(); !r.proved {
		r.differs = &rota.AuditDifference{Logged: fireText(f.GetName(), f.GetDatesMs(), f.GetMissed()),
			Proved: fireText(f.GetName(), dates, uint64(missed))}
	}
	return r
}

// zonesInForce returns the time zones installed in the state before an entry, or those of this binary.
func (a *auditor) zonesInForce() (*cron.Zones, error) {
	t, packed, ok := fsm.InstalledTZData(&a.m.View)
	if !ok {
		return cron.Embedded(), nil
	}
	name := t.Name()
	if a.zones != nil && a.zones.Name() == name {
		return a.zones, nil
	}
	opened, err := cron.Open(name, t.Released, packed)
	if err == nil {
		a.zones = opened
	}
	return opened, err
}

// fires counts an applied entry's schedule decisions, or reports the first Fire that no leader may have proposed, or
// that was applied although the state before its entry does not prove it.
func (a *auditor) fires(applied *fsm.Applied, list []entry.PeekedFire, some []recalculated) error {
	for i, f := range list {
		r, refused := some[i], entry.OutcomeError(applied.Outcomes[f.Place]) != nil
		if r.differs == nil && !refused && !r.proved && !r.unknown {
			r.differs = &rota.AuditDifference{Logged: fireText(f.GetName(), f.GetDatesMs(), f.GetMissed()),
				Proved: fmt.Sprintf("schedule %s is not decided through %s before this entry", f.GetName(),
					rota.Date(f.GetFromMs()))}
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

// fireText formats the dates of a schedule for display.
func fireText(name string, dates []int64, missed uint64) string {
	shown := make([]rota.Date, 0, 10)
	for _, d := range dates[:min(len(dates), cap(shown))] {
		shown = append(shown, rota.Date(d))
	}
	return fmt.Sprintf("schedule %s has %d dates, from %v, and %d before them", name, len(dates), shown, missed)
}
