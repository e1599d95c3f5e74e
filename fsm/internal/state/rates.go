package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Window is a sliding window in sub-windows, oldest first, unused ones last. A sub-window is removed once the window's
// length has passed since it began. So counts are never older than the window, and at least 5/6 of it is covered.
type Window [limits.WindowSlots]slot

// slot is one part of a sliding window: the outcomes, or assignments, since a moment.
type slot struct {
	Since    rota.Clock
	Ok, Fail int64
}

func (s slot) used() bool { return s.Ok+s.Fail > 0 }

// Width is the length of a sub-window, rounded up: at most WindowSlots are alive.
func Width(span rota.Clock) rota.Clock { return (span + limits.WindowSlots - 1) / limits.WindowSlots }

// Expire removes the sub-windows that began a span ago or earlier.
func (w *Window) Expire(span, now rota.Clock) {
	gone := 0
	for gone < len(w) && w[gone].used() && w[gone].Since+span <= now {
		gone++
	}
	if gone == 0 {
		return
	}
	n := copy(w[:], w[gone:])
	clear(w[n:])
}

// Count adds to the sub-window of now. If no slot is free, as after a change of the window's length, it adds to an
// earlier one.
func (w *Window) Count(span, now rota.Clock, ok, fail int64) {
	w.Expire(span, now)
	last := len(w) - 1
	for last > 0 && !w[last].used() {
		last--
	}
	since := now - now%Width(span)
	switch {
	case !w[last].used():
		w[last].Since = since
	case w[last].Since < since && last+1 < len(w):
		last++
		w[last].Since = since
	}
	w[last].Ok += ok
	w[last].Fail += fail
}

// Total returns the sums over a window.
func (w *Window) Total() (ok, fail int64) {
	for i := range w {
		ok, fail = ok+w[i].Ok, fail+w[i].Fail
	}
	return ok, fail
}

// Leaves returns when the oldest sub-window is removed, 0 if there is none.
func (w *Window) Leaves(span rota.Clock) rota.Clock {
	if !w[0].used() {
		return 0
	}
	return w[0].Since + span
}

// Sooner returns the earlier of two moments, of which 0 means never.
func Sooner(a, b rota.Clock) rota.Clock {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func encodeSlots(e *Encoder, w *Window) {
	for _, s := range w {
		e.Int(int64(s.Since))
		e.Int(s.Ok)
		e.Int(s.Fail)
	}
}

func decodeSlots(d *Decoder) (w Window) {
	for i := range w {
		w[i] = slot{rota.Clock(d.Int()), d.Int(), d.Int()}
	}
	return w
}

// Bucket is a token bucket whose whole state is one integer, tat: the theoretical arrival time of the next token use,
// in nanoseconds on the cluster clock (SPEC §4.5; the generic cell rate algorithm). A full bucket has a tat in the
// past, or 0.
//
// The clock counts milliseconds, and clock·10⁶ exceeds 2⁶³ in the year 2262. So products are calculated modulo 2⁶⁴ and
// only ever subtracted from each other: a tat is at most burst·every ahead (10⁶·10⁹ ns, eleven days) and less than 292
// years (2⁶³ ns) behind, as a sweep clears past ones.
//
// every is 10⁹ ÷ rate rounded down: a full bucket's tokens are back after exactly one second, and the rate is exceeded
// by less than rate ÷ 10⁹ of itself.
type Bucket struct{ Every, burst int64 }

const (
	// NsPerMs converts the clock, in ms, to the unit of rates.
	NsPerMs  = 1_000_000
	nsPerSec = 1_000_000_000
)

// BucketOf returns the bucket for a rate of 1 to 10⁷ per second and a burst of at least 1.
func BucketOf(rate, burst int64) Bucket { return Bucket{Every: nsPerSec / rate, burst: burst} }

// Ahead returns how many ns a tat is ahead of now.
func Ahead(tat int64, now rota.Clock) int64 {
	if tat == 0 {
		return 0
	}
	return max(0, tat-int64(now)*NsPerMs)
}

// Tokens returns how many tokens are available now.
func (b Bucket) Tokens(tat int64, now rota.Clock) int64 {
	return max(0, b.burst*b.Every-Ahead(tat, now)) / b.Every
}

// Wait returns the ms until one token is available, rounded up; 0 if one is.
func (b Bucket) Wait(tat int64, now rota.Clock) int64 {
	return max(0, Ahead(tat, now)-(b.burst-1)*b.Every+NsPerMs-1) / NsPerMs
}

// Take returns the tat after one more token was used.
func (b Bucket) Take(tat int64, now rota.Clock) int64 {
	next := int64(now)*NsPerMs + Ahead(tat, now) + b.Every
	if next == 0 {
		next = 1 // 0 means that no token was used
	}
	return next
}

// Moment returns the clock time at which the clock reaches ns.
func Moment(ns int64, now rota.Clock) rota.Clock {
	d := ns - int64(now)*NsPerMs
	if d <= 0 {
		return now - rota.Clock(-d/NsPerMs)
	}
	return now + rota.Clock((d+NsPerMs-1)/NsPerMs)
}

// NextToken returns when the next token is available. Call it only while none is.
func (b Bucket) NextToken(tat int64, now rota.Clock) rota.Clock {
	return Moment(tat-(b.burst-1)*b.Every, now)
}

// Within limits a tat to a whole burst ahead of now, so that the next token is at most one interval away. Taking tokens
// never exceeds that; a changed rate or burst may.
func (b Bucket) Within(tat int64, now rota.Clock) int64 {
	if over := Ahead(tat, now) - b.burst*b.Every; over > 0 {
		tat -= over
	}
	return tat
}
