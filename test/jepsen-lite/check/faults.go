package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LinkFigures count the effects on a link's packets while it was bad.
type LinkFigures struct {
	Packets int64 `json:"packets"`
	Lost    int64 `json:"lost,omitempty"`
	Twice   int64 `json:"twice,omitempty"`
	Early   int64 `json:"early,omitempty"`
	Resets  int64 `json:"resets,omitempty"`
	// Overflowed counts packets that found the queue full.
	Overflowed int64 `json:"overflowed,omitempty"`
	// WaitedMs is the total delay of the packets that passed.
	WaitedMs int64 `json:"waited_ms,omitempty"`
	// Figures from the senders' own TCP: the longest round trip, and segments that it had to send again.
	RoundTripMs   int64 `json:"round_trip_ms,omitempty"`
	Retransmitted int64 `json:"retransmitted,omitempty"`
}

func (f *LinkFigures) add(o LinkFigures) {
	f.Packets, f.Lost, f.Twice, f.Early = f.Packets+o.Packets, f.Lost+o.Lost, f.Twice+o.Twice, f.Early+o.Early
	f.Resets, f.Overflowed, f.WaitedMs = f.Resets+o.Resets, f.Overflowed+o.Overflowed, f.WaitedMs+o.WaitedMs
	f.RoundTripMs, f.Retransmitted = max(f.RoundTripMs, o.RoundTripMs), f.Retransmitted+o.Retransmitted
}

func (f LinkFigures) String() string {
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
	Figures LinkFigures `json:"figures"`
}

// badLinkFigures returns the sum for all bad links.
func (v *view) badLinkFigures() (all LinkFigures) {
	for _, b := range v.BadLinks {
		all.add(b.Figures)
	}
	return all
}

// Spoiling are the nemeses that need a network whose links can be bad.
var Spoiling = []string{"slow-link", "lossy-link", "mangling-link", "starved-link", "reset-connections"}

// badLinkOf reports whether a fault is a bad link of a node (n) or of a worker (w).
func badLinkOf(f *Fault, kind string) bool {
	return slices.Contains(Spoiling, f.Nemesis) && len(f.Targets) > 0 && strings.HasPrefix(f.Targets[0], kind)
}

// stalls reports whether a bad link does more than delay.
func (f *Fault) stalls() bool { return f.Nemesis != "slow-link" && f.Nemesis != "mangling-link" }

// WallFault reports whether a nemesis moves wall clocks and does nothing else.
func WallFault(nemesis string) bool { return strings.HasPrefix(nemesis, "wall-") }

// WallShift is a node's wall clock that was wrong for a time: at the end by Ahead
// milliseconds, or, if it Swings, by that and by nothing in turn.
type WallShift struct {
	Node  string `json:"node"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
	Ahead int64  `json:"ahead_ms"`
	// Swings also applies to a clock of a wrong rate, which passes all values between.
	Swings bool `json:"swings,omitempty"`
}

// EventsRetained is the number of events that nodes keep: all of a run of an hour.
const EventsRetained = 8_000_000

// MaxGoodbye is how long a node may take to end after the request.
const MaxGoodbye = 25 * time.Second

// MaxHung is how long a leader whose disk hangs may have no successor: 5 s until the node reports itself unfit, 15 s
// until it ends, an election.
const MaxHung = 20 * time.Second

// NetworkOfContainers is the name of that network in a history.
const NetworkOfContainers = "containers"
