package fault

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// shape is the fault of a directed link; the zero value is a good link.
type shape struct {
	// delay is added to every packet, jitter is its spread to either side. Packets keep their order all the same, as on
	// a real line.
	delay, jitter time.Duration
	// Of a thousand packets: lost, sent twice, sent ahead of those that wait, and answered by a reset of their
	// connection at both ends.
	lose, twice, early, reset int
	// rate is the line's bytes a second; 0 is unbounded.
	rate int
}

// stalls reports whether a connection over such a link may stall or break, which delay alone never causes.
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

// maxLine bounds the bytes that wait on one line: the buffer of a cheap router. Packets that arrive when it is full
// are dropped, as there.
const maxLine = 4 << 20

// line is one bad directed link: it decides when each packet is forwarded.
type line struct {
	// shaped are the active shapes, each with its figures.
	shaped []*shaped
	// last is when the latest packet in order is forwarded, free when the wire is free.
	last, free time.Time
	waiting    int
}

type shaped struct {
	shape
	figures check.LinkFigures
}

// passage is a packet in transit, with the moment at which it is forwarded. Its line may be over by then.
type passage struct {
	at     time.Time
	packet []byte
	line   *line
}

// take decides one packet's fate: when it is forwarded, if at all, and the resets that go to both ends instead of it.
func (l *line) take(now time.Time, packet []byte, r *rand.Rand) (on []passage, resets [][]byte) {
	s := l.sum()
	chance := func(permille int) bool { return permille > 0 && r.IntN(1000) < permille }
	l.count(func(f *check.LinkFigures) { f.Packets++ })
	if chance(s.reset) {
		if resets = resetBoth(packet); resets != nil {
			l.count(func(f *check.LinkFigures) { f.Resets++ })
			return nil, resets
		}
	}
	if chance(s.lose) {
		l.count(func(f *check.LinkFigures) { f.Lost++ })
		return nil, nil
	}
	if l.waiting+len(packet) > maxLine {
		l.count(func(f *check.LinkFigures) { f.Overflowed++ })
		return nil, nil
	}
	on = []passage{{l.when(now, s, len(packet), chance(s.early), r), packet, l}}
	if chance(s.twice) {
		l.count(func(f *check.LinkFigures) { f.Twice++ })
		on = append(on, on[0])
	}
	l.waiting += len(on) * len(packet)
	waits := on[0].at.Sub(now).Milliseconds()
	l.count(func(f *check.LinkFigures) { f.WaitedMs += waits })
	return on, nil
}

// when returns the time at which a packet is forwarded. An early one passes all pending packets.
func (l *line) when(now time.Time, s shape, size int, early bool, r *rand.Rand) time.Time {
	if early && l.last.After(now) {
		l.count(func(f *check.LinkFigures) { f.Early++ })
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

// sum returns the combination of all shapes of the line.
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

func (l *line) count(f func(*check.LinkFigures)) {
	for _, s := range l.shaped {
		f(&s.figures)
	}
}
