package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// window is a sliding window in sub-windows, oldest first, the unused ones last. A
// sub-window leaves once the window's length has passed since it began, so what is
// counted is never older than the window, and at least 5/6 of it is covered.
type window [limits.WindowSlots]slot

// slot is one part of a sliding window: outcomes, or assignments, since a moment.
type slot struct {
	since    rota.Clock
	ok, fail int64
}

func (s slot) used() bool { return s.ok+s.fail > 0 }

// width is the length of a sub-window, rounded up: at most WindowSlots are alive.
func width(span rota.Clock) rota.Clock { return (span + limits.WindowSlots - 1) / limits.WindowSlots }

// expire lets the sub-windows go that began a span ago.
func (w *window) expire(span, now rota.Clock) {
	gone := 0
	for gone < len(w) && w[gone].used() && w[gone].since+span <= now {
		gone++
	}
	if gone == 0 {
		return
	}
	n := copy(w[:], w[gone:])
	clear(w[n:])
}

// count adds to the sub-window of now. One that began earlier takes it where no
// more are free, as after a change of the window's length.
func (w *window) count(span, now rota.Clock, ok, fail int64) {
	w.expire(span, now)
	last := len(w) - 1
	for last > 0 && !w[last].used() {
		last--
	}
	since := now - now%width(span)
	switch {
	case !w[last].used():
		w[last].since = since
	case w[last].since < since && last+1 < len(w):
		last++
		w[last].since = since
	}
	w[last].ok += ok
	w[last].fail += fail
}

// total sums a window.
func (w *window) total() (ok, fail int64) {
	for i := range w {
		ok, fail = ok+w[i].ok, fail+w[i].fail
	}
	return ok, fail
}

// leaves is when the oldest sub-window goes, 0 if there is none.
func (w *window) leaves(span rota.Clock) rota.Clock {
	if !w[0].used() {
		return 0
	}
	return w[0].since + span
}

// sooner is the earlier of two moments, of which 0 is never.
func sooner(a, b rota.Clock) rota.Clock {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func encodeSlots(e *encoder, w *window) {
	for _, s := range w {
		e.int(int64(s.since))
		e.int(s.ok)
		e.int(s.fail)
	}
}

func decodeSlots(d *decoder) (w window) {
	for i := range w {
		w[i] = slot{rota.Clock(d.int()), d.int(), d.int()}
	}
	return w
}

// bucket is a token bucket whose whole state is one integer, tat: the theoretical
// arrival time of the next taking, in nanoseconds on the cluster clock (SPEC §4.5;
// the generic cell rate algorithm). A full bucket has a tat that is past, or 0.
//
// The clock counts milliseconds, and clock·10⁶ passes 2⁶³ in the year 2262. So
// products are taken modulo 2⁶⁴ and only ever subtracted from each other: a tat
// lies at most burst·every ahead (10⁶·10⁹ ns, eleven days) and, as a sweep clears
// what is past, no 292 years (2⁶³ ns) behind.
//
// every is 10⁹ ÷ rate rounded down: a full bucket's worth is back after exactly one
// second, and the rate is exceeded by less than rate ÷ 10⁹ of itself.
type bucket struct{ every, burst int64 }

const (
	nsPerMs  = 1_000_000
	nsPerSec = 1_000_000_000
)

// bucketOf takes a rate of 1 to 10⁷ a second and a burst of at least 1.
func bucketOf(rate, burst int64) bucket { return bucket{every: nsPerSec / rate, burst: burst} }

// ahead is by how many ns a tat lies ahead of now.
func ahead(tat int64, now rota.Clock) int64 {
	if tat == 0 {
		return 0
	}
	return max(0, tat-int64(now)*nsPerMs)
}

// tokens counts what may be taken now.
func (b bucket) tokens(tat int64, now rota.Clock) int64 {
	return max(0, b.burst*b.every-ahead(tat, now)) / b.every
}

// wait is how many ms it takes until one token is there, rounded up; 0 if one is.
func (b bucket) wait(tat int64, now rota.Clock) int64 {
	return max(0, ahead(tat, now)-(b.burst-1)*b.every+nsPerMs-1) / nsPerMs
}

// take returns the tat after one more taking.
func (b bucket) take(tat int64, now rota.Clock) int64 {
	next := int64(now)*nsPerMs + ahead(tat, now) + b.every
	if next == 0 {
		next = 1 // 0 says that nothing was taken
	}
	return next
}

// moment is when the clock has reached ns, whatever the clock says now.
func moment(ns int64, now rota.Clock) rota.Clock {
	d := ns - int64(now)*nsPerMs
	if d <= 0 {
		return now - rota.Clock(-d/nsPerMs)
	}
	return now + rota.Clock((d+nsPerMs-1)/nsPerMs)
}

// nextToken is when the next token is there; asked only while there is none.
func (b bucket) nextToken(tat int64, now rota.Clock) rota.Clock {
	return moment(tat-(b.burst-1)*b.every, now)
}

// within returns a tat at most a whole burst ahead of now: so the next token is at most one interval away. A bucket
// never takes more by itself; the tat of one whose rate or burst was changed may lie further ahead.
func (b bucket) within(tat int64, now rota.Clock) int64 {
	if over := ahead(tat, now) - b.burst*b.every; over > 0 {
		tat -= over
	}
	return tat
}
