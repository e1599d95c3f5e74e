package cluster

import "github.com/rotasched/rota"

// DatesOf calculates the first dates after one of a schedule that is not set yet, at most so many, by the time zones in force.
func (sv *scheduleVerbs) DatesOf(times *rota.ScheduleTimes, after rota.Date, most int) ([]rota.Date, error) {
	zones, err := sv.n.zones.now()
	if err != nil {
		return nil, err
	}
	if err := zones.Check(times, after); err != nil {
		return nil, err
	}
	table, err := zones.Of(times, after)
	if err != nil {
		return nil, err
	}
	dates := []rota.Date{}
	for d := int64(after); len(dates) < most; {
		next, ok := table.Next(d)
		if !ok {
			break
		}
		dates, d = append(dates, rota.Date(next)), next
	}
	return dates, nil
}
