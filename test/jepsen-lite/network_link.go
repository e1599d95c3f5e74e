package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// shape is how bad a directed link is; the zero value is a good one.
type shape struct {
	// delay is added to every packet, jitter is its spread to either side. Packets
	// keep their order all the same, as on a real line.
	delay, jitter time.Duration
	// Of a thousand packets: lost, sent twice, sent ahead of those that wait, and
	// answered by a reset of their connection at both ends.
	lose, twice, early, reset int
	// rate is the line's bytes a second; 0 is unbounded.
	rate int
}

// stalls says that a connection over such a link may stand still or break, which
// delay alone never makes it do.
func (s shape) stalls() bool { return s.lose > 0 || s.reset > 0 || s.rate > 0 }

func (s shape) String() string {
	var parts []string
	add := func(wanted bool, format string, args ...any) {
		if wanted {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.delay > 0, "%s±%s", s.delay, s.jitter)
	add(s.lose > 0, "loss %.1f %%", float64(s.lose)/10)
	add(s.twice > 0, "twice %.1f %%", float64(s.twice)/10)
	add(s.early > 0, "early %.1f %%", float64(s.early)/10)
	add(s.reset > 0, "reset %.1f %%", float64(s.reset)/10)
	add(s.rate > 0, "%d KiB/s", s.rate>>10)
	return strings.Join(parts, ", ")
}

// linkFigures are what befell a link's packets while it was bad.
type linkFigures struct {
	Packets int64 `json:"packets"`
	Lost    int64 `json:"lost,omitempty"`
	Twice   int64 `json:"twice,omitempty"`
	Early   int64 `json:"early,omitempty"`
	Resets  int64 `json:"resets,omitempty"`
	// Overflowed found the queue full.
	Overflowed int64 `json:"overflowed,omitempty"`
	// WaitedMs is all that those that passed were held up.
	WaitedMs int64 `json:"waited_ms,omitempty"`
	// What the senders' own TCP says of it: the longest round trip, and segments that
	// it had to send again.
	RoundTripMs   int64 `json:"round_trip_ms,omitempty"`
	Retransmitted int64 `json:"retransmitted,omitempty"`
}

func (f *linkFigures) add(o linkFigures) {
	f.Packets, f.Lost, f.Twice, f.Early = f.Packets+o.Packets, f.Lost+o.Lost, f.Twice+o.Twice, f.Early+o.Early
	f.Resets, f.Overflowed, f.WaitedMs = f.Resets+o.Resets, f.Overflowed+o.Overflowed, f.WaitedMs+o.WaitedMs
	f.RoundTripMs, f.Retransmitted = max(f.RoundTripMs, o.RoundTripMs), f.Retransmitted+o.Retransmitted
}

func (f linkFigures) String() string {
	s := fmt.Sprintf("%d packets", f.Packets)
	for _, part := range []struct {
		n    int64
		text string
	}{{f.Lost, "lost"}, {f.Twice, "twice"}, {f.Early, "early"}, {f.Resets, "reset"}, {f.Overflowed, "overflowed"},
		{f.Retransmitted, "sent again"}} {
		if part.n > 0 {
			s += fmt.Sprintf(", %d %s", part.n, part.text)
		}
	}
	if passed := f.Packets - f.Lost - f.Overflowed; f.WaitedMs > 0 && passed > 0 {
		s += fmt.Sprintf(", held up %d ms each", f.WaitedMs/passed)
	}
	if f.RoundTripMs > 0 {
		s += fmt.Sprintf(", round trip up to %d ms", f.RoundTripMs)
	}
	return s
}

// BadLink is a directed link that was bad for a time.
type BadLink struct {
	From    string      `json:"from"`
	To      string      `json:"to"`
	Begin   int64       `json:"begin"`
	End     int64       `json:"end"`
	Shape   string      `json:"shape"`
	Stalls  bool        `json:"stalls,omitempty"`
	Figures linkFigures `json:"figures"`
}

// lineMost bounds what waits on one line, in bytes: the buffer of a cheap router.
// What comes when it is full is dropped, as there.
const lineMost = 4 << 20

// line is one bad directed link: it says when which packet goes on.
type line struct {
	// shaped are the shapes at work, each with its figures.
	shaped []*shaped
	// last is when the latest packet in order goes on, free when the wire is.
	last, free time.Time
	waiting    int
}

type shaped struct {
	shape
	figures linkFigures
}

// passage is a packet on its way: it goes on at a moment. Its line may be over
// by then.
type passage struct {
	at     time.Time
	packet []byte
	line   *line
}

// take decides one packet's fate: when it goes on, never if nowhere, and the
// resets that go to both ends instead of it.
func (l *line) take(now time.Time, packet []byte, r *rand.Rand) (on []passage, resets [][]byte) {
	s := l.sum()
	chance := func(permille int) bool { return permille > 0 && r.IntN(1000) < permille }
	l.count(func(f *linkFigures) { f.Packets++ })
	if chance(s.reset) {
		if resets = resetBoth(packet); resets != nil {
			l.count(func(f *linkFigures) { f.Resets++ })
			return nil, resets
		}
	}
	if chance(s.lose) {
		l.count(func(f *linkFigures) { f.Lost++ })
		return nil, nil
	}
	if l.waiting+len(packet) > lineMost {
		l.count(func(f *linkFigures) { f.Overflowed++ })
		return nil, nil
	}
	on = []passage{{l.when(now, s, len(packet), chance(s.early), r), packet, l}}
	if chance(s.twice) {
		l.count(func(f *linkFigures) { f.Twice++ })
		on = append(on, on[0])
	}
	l.waiting += len(on) * len(packet)
	waits := on[0].at.Sub(now).Milliseconds()
	l.count(func(f *linkFigures) { f.WaitedMs += waits })
	return on, nil
}

// when is when a packet goes on. One that is early overtakes all that wait.
func (l *line) when(now time.Time, s shape, size int, early bool, r *rand.Rand) time.Time {
	if early && l.last.After(now) {
		l.count(func(f *linkFigures) { f.Early++ })
		return now
	}
	at := now
	if s.rate > 0 {
		if l.free.Before(now) {
			l.free = now
		}
		l.free = l.free.Add(time.Duration(size) * time.Second / time.Duration(s.rate))
		at = l.free
	}
	at = at.Add(s.delay)
	if s.jitter > 0 {
		at = at.Add(time.Duration(r.Int64N(int64(2*s.jitter))) - s.jitter)
	}
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at
	return at
}

// sum is what all shapes together make of the line.
func (l *line) sum() (all shape) {
	for _, s := range l.shaped {
		all.delay, all.jitter = all.delay+s.delay, all.jitter+s.jitter
		all.lose, all.twice = all.lose+s.lose, all.twice+s.twice
		all.early, all.reset = all.early+s.early, all.reset+s.reset
		if s.rate > 0 && (all.rate == 0 || s.rate < all.rate) {
			all.rate = s.rate
		}
	}
	return all
}

func (l *line) count(f func(*linkFigures)) {
	for _, s := range l.shaped {
		f(&s.figures)
	}
}

// badLinkFigures are those of all bad links together.
func (v *view) badLinkFigures() (all linkFigures) {
	for _, b := range v.BadLinks {
		all.add(b.Figures)
	}
	return all
}
