package cron

import (
	"slices"
	"time"

	"github.com/rotasched/rota"
)

// Table lists the dates of a schedule. Moments are Unix ms.
type Table interface {
	// Next returns the first date after a moment; ok is false where there is none, or none within
	// five years.
	Next(after int64) (date int64, ok bool)
	// count returns how many dates there are after from, up to until.
	count(from, until int64) int64
}

// reach is how far Next looks.
const reach = 5*366*day + day

// The lengths of time, in ms.
const (
	second = int64(time.Second / time.Millisecond)
	day    = 24 * 3600 * second
)

// Every returns the dates that are anchor modulo a period, all in ms.
func Every(period, anchor int64) (Table, error) {
	if period < MinEvery.Milliseconds() || period > maxEvery.Milliseconds() {
		return nil, rota.Refusef(rota.KindInvalid, "every_ms", "every must be between %v and %v, got %v", MinEvery,
			maxEvery, time.Duration(period)*time.Millisecond)
	}
	return every{period, ((anchor % period) + period) % period}, nil
}

// every are the dates of one remainder.
type every struct{ period, rest int64 }

// before counts the dates up to a moment, from one far in the past on.
func (e every) before(until int64) int64 {
	n := (until - e.rest) / e.period
	if (until-e.rest)%e.period < 0 {
		n--
	}
	return n
}

func (e every) Next(after int64) (int64, bool) {
	return (e.before(after)+1)*e.period + e.rest, true
}

func (e every) count(from, until int64) int64 { return e.before(until) - e.before(from) }

// dates are given ones, which ascend.
type dates []int64

func (d dates) Next(after int64) (int64, bool) {
	i := d.after(after)
	if i == len(d) {
		return 0, false
	}
	return d[i], true
}

// after returns the place of the first date after a moment.
func (d dates) after(moment int64) int {
	i, found := slices.BinarySearch(d, moment)
	if found {
		i++
	}
	return i
}

func (d dates) count(from, until int64) int64 { return int64(d.after(until) - d.after(from)) }

// Between returns the newest dates of those after from and up to until, at most `most`, in order, and how many come
// before them.
func Between(t Table, from, until int64, most int) (newest []int64, before int64) {
	if until <= from {
		return nil, 0
	}
	low := from
	for high := until; t.count(low, until) > int64(most) && high-low > second; {
		if mid := low + (high-low)/2; t.count(mid, until) >= int64(most) {
			low = mid
		} else {
			high = mid
		}
	}
	for at := low; ; {
		d, ok := t.Next(at)
		if !ok && at < until-reach {
			at += reach // a gap of more than five years
			continue
		}
		if !ok || d > until {
			break
		}
		newest, at = append(newest, d), d
	}
	if drop := len(newest) - most; drop > 0 {
		newest = slices.Clone(newest[drop:])
	}
	return newest, t.count(from, until) - int64(len(newest))
}

// Period returns the newest date of a table that is not after now, in ms, and the next one: the period that now is in.
// It is false for a table whose dates are more than 32 days apart.
func Period(t Table, now int64) (since, until int64, ok bool) {
	const longest = 32 * 24 * 3600 * 1000
	begun, _ := Between(t, now-longest, now, 1)
	if until, ok = t.Next(now); !ok || len(begun) == 0 {
		return 0, 0, false
	}
	return begun[0], until, true
}

// clamped are the dates of a table from start on and before end; 0 means unbounded.
type clamped struct {
	t          Table
	start, end int64
}

func (c clamped) Next(after int64) (int64, bool) {
	if c.start != 0 {
		after = max(after, c.start-1)
	}
	d, ok := c.t.Next(after)
	return d, ok && (c.end == 0 || d < c.end)
}

func (c clamped) count(from, until int64) int64 {
	if c.start != 0 {
		from = max(from, c.start-1)
	}
	if c.end != 0 {
		until = min(until, c.end-1)
	}
	if until <= from {
		return 0
	}
	return c.t.count(from, until)
}
