package replica

import (
	"testing"

	"github.com/rotasched/rota"
)

// TestHub_entersInOrder: a worker's streams may be registered in any order, as their registrations are answered. The
// newest one is served, the others end; one of each other session stays reachable, to confirm.
func TestHub_entersInOrder(t *testing.T) {
	t.Parallel()
	type entry struct {
		session    rota.Session
		connection uint64
	}
	streamOf := func(e entry) *WorkerSession {
		return &WorkerSession{worker: "w", session: e.session, connection: e.connection, notify: make(chan struct{}, 1)}
	}
	for name, c := range map[string]struct {
		enter, reachable []entry
	}{
		"in order":                      {[]entry{{1, 7}, {1, 8}}, []entry{{1, 8}}},
		"reversed":                      {[]entry{{1, 8}, {1, 7}}, []entry{{1, 8}}},
		"without numbers":               {[]entry{{1, 0}, {1, 0}}, []entry{{1, 0}}},
		"a takeover":                    {[]entry{{1, 8}, {2, 3}}, []entry{{2, 3}, {1, 8}}},
		"the one before a takeover":     {[]entry{{2, 3}, {1, 8}}, []entry{{2, 3}, {1, 8}}},
		"two of the one before":         {[]entry{{2, 3}, {1, 8}, {1, 7}}, []entry{{2, 3}, {1, 8}}},
		"a newer one of the one before": {[]entry{{2, 3}, {1, 7}, {1, 8}}, []entry{{2, 3}, {1, 8}}},
		"two takeovers, all reversed":   {[]entry{{3, 1}, {2, 1}, {1, 1}}, []entry{{3, 1}, {2, 1}, {1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := NewHub()
			var all []*WorkerSession
			for _, e := range c.enter {
				s := streamOf(e)
				all = append(all, s)
				h.enter(s)
			}
			if last := all[len(all)-1]; name == "without numbers" && h.Sessions["w"] != last {
				t.Error("among streams without numbers the last one is not served")
			}
			i := 0
			for s := range h.streams() {
				if got := (entry{s.session, s.connection}); i >= len(c.reachable) || got != c.reachable[i] {
					t.Fatalf("stream %d is %v, of %v", i, got, c.reachable)
				}
				i++
			}
			if i != len(c.reachable) {
				t.Fatalf("%d streams can be reached, of %v", i, c.reachable)
			}
			for _, s := range all {
				if first := s == h.Sessions["w"]; s.over == first {
					t.Errorf("stream %d of session %d has ended: %v", s.connection, s.session, s.over)
				}
			}
			for _, s := range all {
				h.leave(s)
			}
			if len(h.Sessions) != 0 {
				t.Error("a stream that left is still there")
			}
		})
	}
}

// TestHub_anOlderStreamMendsNothing: the end of a worker's newest stream is reported although an older one is
// registered after it.
func TestHub_anOlderStreamMendsNothing(t *testing.T) {
	t.Parallel()
	h := NewHub()
	newer := &WorkerSession{worker: "w", session: 1, connection: 8, notify: make(chan struct{}, 1)}
	older := &WorkerSession{worker: "w", session: 1, connection: 7, notify: make(chan struct{}, 1)}
	h.enter(newer)
	h.leave(newer)
	h.enter(older)
	if b := h.Broken["w"]; b.Connection != 8 || !older.over {
		t.Errorf("broken: %+v, the older one ended: %v", b, older.over)
	}
	h.leave(older)
	if b := h.Broken["w"]; b.Connection != 8 || len(h.Sessions) != 0 {
		t.Errorf("broken: %+v, streams: %d", b, len(h.Sessions))
	}
	h.enter(&WorkerSession{worker: "w", session: 1, connection: 9, notify: make(chan struct{}, 1)})
	if len(h.Broken) != 0 {
		t.Error("a newer stream repairs nothing")
	}
}
