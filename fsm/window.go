package fsm

import "github.com/rotasched/rota"

// window is a sliding window in sub-windows, oldest first, the unused ones last. A
// sub-window leaves once the window's length has passed since it began, so what is
// counted is never older than the window, and at least 5/6 of it is covered.
type window [rota.WindowSlots]slot

// slot is one part of a sliding window: outcomes, or assignments, since a moment.
type slot struct {
	since    rota.Clock
	ok, fail int64
}

func (s slot) used() bool { return s.ok+s.fail > 0 }

// width is the length of a sub-window, rounded up: at most WindowSlots are alive.
func width(span rota.Clock) rota.Clock { return (span + rota.WindowSlots - 1) / rota.WindowSlots }

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
