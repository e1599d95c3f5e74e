package cron

import (
	"math/bits"
	"time"
)

// expression is a cron expression: a bit for each value that a field takes.
type expression struct {
	second, minute, hour, day, month, week uint64
	// either means that both days are restricted: a day that either names counts.
	either bool
	// elapsed means that the hours go by elapsed time, as the field begins with *.
	elapsed bool
	where   *time.Location
}

// span is a time in which a zone keeps its offset to UTC, in Unix seconds. The next one may
// have the same: years end one.
type span struct{ from, to, offset int64 }

// always bounds spans that have no bound.
const always = int64(1) << 40

func (x *expression) spanAt(unix int64) span {
	t := time.Unix(unix, 0).In(x.where)
	_, offset := t.Zone()
	s := span{-always, always, int64(offset)}
	from, to := t.ZoneBounds()
	if !from.IsZero() {
		s.from = from.Unix()
	}
	if !to.IsZero() {
		s.to = to.Unix()
	}
	if s.to <= unix { // the last day of a leap year, which ZoneBounds takes for the next one's
		s.to = (floor(unix, 86400) + 1) * 86400
	}
	return s
}

// shown returns the local second up to which a zone has shown its times before a span. The span shows earlier seconds
// again, and never shows those from there to its beginning.
func (x *expression) shown(s span) int64 {
	if s.from == -always {
		return s.from
	}
	last := -always
	for at := s.from - 1; at > s.from-2*86400; {
		before := x.spanAt(at)
		last = max(last, before.to+before.offset)
		if at = before.from - 1; before.from == -always {
			break
		}
	}
	return last
}

// Next implements [Table]. One rule serves each change of the offset (SPEC §17.2).
func (x *expression) Next(after int64) (int64, bool) {
	at := floor(after, 1000) + 1
	for end := at + reach/1000; at < end; {
		s := x.spanAt(at)
		if d, ok := x.within(s, at, min(s.to, end)); ok {
			return d * 1000, true
		}
		at = s.to
	}
	return 0, false
}

// within returns the first date of a span from one second on, before another.
func (x *expression) within(s span, at, end int64) (int64, bool) {
	local := at + s.offset
	if !x.elapsed {
		shown := x.shown(s)
		if at == s.from && shown != -always && shown < local {
			if _, skipped := x.find(shown, local); skipped {
				return at, true
			}
		}
		local = max(local, shown)
	}
	d, ok := x.find(local, end+s.offset)
	return d - s.offset, ok
}

// find returns the first local second that the fields name, from one on, before another.
func (x *expression) find(from, end int64) (int64, bool) {
	date, clock := floor(from, 86400), from-floor(from, 86400)*86400
	for ; date*86400 < end; date, clock = date+1, 0 {
		if !x.onDay(date) {
			continue
		}
		if c, ok := x.onClock(clock); ok {
			return date*86400 + c, date*86400+c < end
		}
	}
	return 0, false
}

// onDay reports whether the fields name a day, counted since 1970.
func (x *expression) onDay(date int64) bool {
	t := time.Unix(date*86400, 0).UTC()
	if x.month>>t.Month()&1 == 0 {
		return false
	}
	month, week := x.day>>t.Day()&1 == 1, x.week>>t.Weekday()&1 == 1
	if x.either {
		return month || week
	}
	return month && week
}

// onClock returns the first second of a day that the fields name, from one on.
func (x *expression) onClock(from int64) (int64, bool) {
	h, m, s := int(from/3600), int(from/60%60), int(from%60)
	if x.hour>>h&1 == 1 {
		if x.minute>>m&1 == 1 {
			if s = next(x.second, s); s < 60 {
				return int64(h*3600 + m*60 + s), true
			}
		}
		if m = next(x.minute, m+1); m < 60 {
			return int64(h*3600 + m*60 + next(x.second, 0)), true
		}
	}
	if h = next(x.hour, h+1); h < 24 {
		return int64(h*3600 + next(x.minute, 0)*60 + next(x.second, 0)), true
	}
	return 0, false
}

// next returns the first bit of a set from one on, 60 where there is none.
func next(set uint64, from int) int {
	if set >>= from; set == 0 {
		return 60
	}
	return from + bits.TrailingZeros64(set)
}

// count implements [Table]: whole days at once, the rest date by date.
func (x *expression) count(from, until int64) (n int64) {
	at, last := floor(from, 1000)+1, floor(until, 1000)
	for at <= last {
		s := x.spanAt(at)
		end := min(s.to, last+1)
		// The first whole local day of the span that a change does not touch.
		date := -floor(-(max(at, s.from+2*86400) + s.offset), 86400)
		n += x.each(at, min(end, date*86400-s.offset))
		for ; (date+1)*86400-s.offset <= end; date++ {
			if x.onDay(date) {
				n += x.times()
			}
		}
		n += x.each(max(at, date*86400-s.offset), end)
		at = end
	}
	return n
}

// each counts dates one by one, from a second on, before another.
func (x *expression) each(at, end int64) (n int64) {
	for at < end {
		d, ok := x.Next((at - 1) * 1000)
		if !ok || d/1000 >= end {
			return n
		}
		n++
		at = d/1000 + 1
	}
	return n
}

// floor divides, down.
func floor(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}
