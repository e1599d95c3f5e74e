package explain

import (
	"testing"

	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestRound_differs plants differences in the log: none of them is proved, and both rounds are shown.
func TestRound_differs(t *testing.T) {
	t.Parallel()
	round := func() *fsmpb.Round {
		return &fsmpb.Round{Epoch: 7, Height: 9, Queue: "q",
			Pairs: []*fsmpb.Pair{{Job: "a", Worker: "w1", Score: 5}, {Job: "b", Worker: "w2"}}}
	}
	if r := compared(round(), round()); !r.Proved || r.LoggedText != "" || r.ComputedText != "" || len(r.Logged) != 2 {
		t.Errorf("two equal rounds are reported as %+v", r)
	}
	for name, plant := range map[string]func(*fsmpb.Round){
		"another worker": func(r *fsmpb.Round) { r.Pairs[1].Worker = "w1" },
		"another score":  func(r *fsmpb.Round) { r.Pairs[0].Score++ },
		"a pair less":    func(r *fsmpb.Round) { r.Pairs = r.Pairs[:1] },
		"another order":  func(r *fsmpb.Round) { r.Pairs[0], r.Pairs[1] = r.Pairs[1], r.Pairs[0] },
		"a hold":         func(r *fsmpb.Round) { r.Holds = []*fsmpb.Hold{{Job: "c", Worker: "w3"}} },
	} {
		logged := round()
		plant(logged)
		if r := compared(logged, round()); r.Proved || r.LoggedText == r.ComputedText || len(r.Computed) != 2 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := compared(round(), nil); r.Proved || r.LoggedText == "" || r.ComputedText == "" {
		t.Errorf("where no such round is decided: %+v", r)
	}
}
