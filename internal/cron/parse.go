package cron

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota"
)

const (
	// maxExpr bounds a cron expression: every value of every field by itself takes less.
	maxExpr = 1024
	// MinEvery is the shortest period of a schedule.
	MinEvery = time.Second
	// maxEvery is the longest one.
	maxEvery = 3650 * 24 * time.Hour
)

// field is one of a cron expression.
type field struct {
	name     string
	min, max int
	names    []string
	// first is the value of the first name.
	first int
}

var (
	months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	days   = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

	fields = [...]field{{name: "second", max: 59}, {name: "minute", max: 59}, {name: "hour", max: 23},
		{name: "day of month", min: 1, max: 31},
		{name: "month", min: 1, max: 12, names: months, first: 1}, {name: "day of week", max: 7, names: days}}

	nicknames = map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
		"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}
)

func refuse(format string, args ...any) error {
	return rota.Refusef(rota.KindInvalid, "cron", format, args...)
}

// Of returns the dates of a schedule that was set on a date.
func (z *Zones) Of(t *rota.ScheduleTimes, set rota.Date) (Table, error) {
	anchor := t.Start
	if anchor == 0 {
		anchor = set
	}
	var table Table
	var err error
	switch {
	case t.Cron != "":
		table, err = z.parse(t.Cron, t.TZ, int64(anchor))
	case t.Every != 0:
		table, err = Every(t.Every.Milliseconds(), int64(anchor))
	default:
		list := make(dates, len(t.Dates))
		for i, d := range t.Dates {
			list[i] = int64(d)
		}
		table = list
	}
	if err != nil {
		return nil, err
	}
	return clamped{table, int64(t.Start), int64(t.End)}, nil
}

// Check refuses times that mean nothing, or have no date within five years of a moment.
func (z *Zones) Check(t *rota.ScheduleTimes, now rota.Date) error {
	table, err := z.Of(t, now)
	if err != nil {
		return err
	}
	if t.TZ != "" && t.Cron == "" {
		return rota.Refusef(rota.KindInvalid, "tz",
			"tz: got %.80q without cron; omit it, periods and dates have no zone", t.TZ)
	}
	if _, ok := table.Next(int64(max(now, t.Start-1))); !ok {
		return refuse("the schedule has no date within five years: fix its cron expression, its dates or its end")
	}
	return nil
}

// parse reads a cron expression, to be evaluated in a zone. Periods, as of @every, are counted from anchor, Unix ms.
func (z *Zones) parse(expr, zone string, anchor int64) (Table, error) {
	where, err := z.Zone(zone)
	if err != nil {
		return nil, err
	}
	if len(expr) > maxExpr {
		return nil, refuse("cron too long: got %d bytes, maximum %d", len(expr), maxExpr)
	}
	d, found := strings.CutPrefix(expr, "@every ")
	if !found {
		return parseFields(expr, where)
	}
	period, err := time.ParseDuration(strings.TrimSpace(d))
	if err != nil {
		return nil, refuse("cron %.80q: invalid duration %.40q: use a value such as 90s, 5m or 1h30m", expr, d)
	}
	t, err := Every(period.Milliseconds(), anchor)
	if err != nil {
		return nil, refuse("cron %.80q: %v", expr, err)
	}
	return t, nil
}

func parseFields(expr string, where *time.Location) (*expression, error) {
	full := expr
	if strings.HasPrefix(expr, "@") {
		if full = nicknames[strings.ToLower(expr)]; full == "" {
			return nil, refuse("cron: got %.80q; use @hourly, @daily, @weekly, @monthly, @yearly or @every DURATION",
				expr)
		}
	}
	words := strings.Fields(full)
	switch len(words) {
	case 5:
		words = append([]string{"0"}, words...)
	case 6:
	default:
		return nil, refuse(
			"cron: got %.80q with %d fields, want 5 (minute, hour, day of month, month, day of week) or 6 (second first)",
			expr,
			len(words))
	}
	var sets [len(fields)]uint64
	for i, word := range words {
		set, err := fields[i].parse(strings.ToLower(word))
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	week := sets[5]
	if week>>7&1 == 1 {
		week |= 1 // 7 is Sunday too
	}
	starred := func(i int) bool { return strings.HasPrefix(words[i], "*") || strings.HasPrefix(words[i], "?") }
	return &expression{second: sets[0], minute: sets[1], hour: sets[2], day: sets[3], month: sets[4], week: week & 0x7f,
		either: !starred(3) && !starred(5), elapsed: starred(2), where: where}, nil
}

// parse reads a list of ranges, as the bits of a set.
func (f *field) parse(word string) (set uint64, err error) {
	for part := range strings.SplitSeq(word, ",") {
		s, err := f.parseRange(part)
		if err != nil {
			return 0, err
		}
		set |= s
	}
	return set, nil
}

// parseRange reads *, a value, or a range, each with an optional step.
func (f *field) parseRange(part string) (set uint64, err error) {
	span, stride, stepped := strings.Cut(part, "/")
	from, to := f.min, f.max
	if span != "*" && span != "?" {
		low, high, ranged := strings.Cut(span, "-")
		if from, err = f.value(low, part); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if to, err = f.value(high, part); err != nil {
				return 0, err
			}
		case stepped:
			return 0, refuse("%s %.40q steps from one value: write a range before the /, such as %d-%d%s", f.name, part,
				from, f.max, "/"+stride)
		default:
			to = from
		}
		if f.max == 7 && ranged && to == 0 && from > 0 {
			to = 7 // fri-sun
		}
		if from > to {
			return 0, refuse("%s %.40q runs backwards: write two ranges", f.name, part)
		}
	} else if f.max == 7 {
		to = 6 // Sunday once
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stride); err != nil || step < 1 || step > f.max || stride[0] == '+' {
			return 0, refuse("%s %.40q has no step of 1 to %d after the /", f.name, part, f.max)
		}
	}
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set, nil
}

// value reads a number or a name.
func (f *field) value(s, part string) (int, error) {
	for i, name := range f.names {
		if s == name {
			return f.first + i, nil
		}
	}
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return 0, refuse("%s %.40q: got %.20q; use %d to %d%s", f.name, part, s, f.min, f.max, f.named())
	}
	if int(n) < f.min || int(n) > f.max {
		return 0, refuse("%s must be between %d and %d, got %d", f.name, f.min, f.max, n)
	}
	return int(n), nil
}

func (f *field) named() string {
	if len(f.names) == 0 {
		return ""
	}
	return ", or " + f.names[0] + " to " + f.names[len(f.names)-1]
}

// times counts the dates of a day that is as long as most.
func (x *expression) times() int64 {
	return int64(bits.OnesCount64(x.second)) * int64(bits.OnesCount64(x.minute)) * int64(bits.OnesCount64(x.hour))
}
