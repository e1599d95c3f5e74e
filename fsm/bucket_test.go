package fsm

import (
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// naiveBucket records every token used in the last second: the rule itself.
type naiveBucket struct {
	burst, every int64
	// missing is how many ns worth of tokens are missing at the time at.
	missing int64
	at      rota.Clock
}

func (n *naiveBucket) take(now rota.Clock) bool {
	n.missing = max(0, n.missing-int64(now-n.at)*state.NsPerMs)
	n.at = now
	if n.missing+n.every > n.burst*n.every {
		return false
	}
	n.missing += n.every
	return true
}

func TestBucket(t *testing.T) {
	t.Parallel()
	t.Run("is_the_naive_one_with_one_integer", func(t *testing.T) {
		t.Parallel()
		chance := rand.New(rand.NewPCG(3, 4))
		for _, start := range []rota.Clock{1, startClock, 9_223_372_036_854, 1<<46 - 1} {
			for _, rate := range []int64{1, 3, 50, 999, 10_000_000} {
				b := state.BucketOf(rate, rate)
				n := &naiveBucket{burst: rate, every: b.Every, at: start}
				tat, now := int64(0), start
				for range 3000 {
					wait := b.Wait(tat, now)
					if took := n.take(now); took != (wait == 0) || took != (b.Tokens(tat, now) > 0) {
						t.Fatalf("rate %d at %d: the naive bucket returns %v, wait is %d, tokens %d", rate, now, took,
							wait, b.Tokens(tat, now))
					}
					if wait > 0 {
						if b.Wait(tat, now+rota.Clock(wait)) != 0 || b.Wait(tat, now+rota.Clock(wait)-1) == 0 {
							t.Fatalf("rate %d: a wait of %d ms is not exact", rate, wait)
						}
						if b.NextToken(tat, now) != now+rota.Clock(wait) {
							t.Fatalf("rate %d: next token at %d, in %d ms from %d", rate, b.NextToken(tat, now), wait,
								now)
						}
					} else {
						tat = b.Take(tat, now)
					}
					if later := now + 777; state.Moment(tat, now) != state.Moment(tat, later) {
						t.Fatalf("the moment of a tat depends on when it is computed")
					}
					now += rota.Clock(chance.Int64N(3 + 2000/rate))
				}
			}
		}
	})
	t.Run("is_full_again_after_a_second", func(t *testing.T) {
		t.Parallel()
		for _, rate := range []int64{1, 3, 7, 50, 6_666_667, 10_000_000} {
			b := state.BucketOf(rate, rate)
			tat := int64(startClock)*state.NsPerMs + rate*b.Every // all used at startClock
			if b.Tokens(tat, startClock) != 0 || b.Tokens(tat, startClock+1000) != rate {
				t.Fatalf("rate %d: %d tokens, after a second %d", rate, b.Tokens(tat, startClock),
					b.Tokens(tat, startClock+1000))
			}
		}
	})
}

func TestWindow(t *testing.T) {
	t.Parallel()
	t.Run("counts_what_is_younger_than_five_sixths_and_nothing_older_than_all", func(t *testing.T) {
		t.Parallel()
		chance := rand.New(rand.NewPCG(5, 6))
		for _, span := range []rota.Clock{1000, 1007, 60_000} {
			var w state.Window
			var at []rota.Clock
			now := rota.Clock(startClock)
			for range 5000 {
				now += rota.Clock(chance.Int64N(int64(span) / 10))
				w.Count(span, now, 1, 0)
				at = append(at, now)
				var least, most int64
				for _, x := range at {
					if x > now-span+state.Width(span) {
						least++
					}
					if x > now-span {
						most++
					}
				}
				if n, _ := w.Total(); n < least || n > most {
					t.Fatalf("span %d: %d are counted, want %d to %d", span, n, least, most)
				}
				if due := w.Leaves(span); due <= now {
					t.Fatalf("span %d: a sub-window was due at %d, it is %d", span, due, now)
				}
			}
			for now = w.Leaves(span); w.Leaves(span) != 0; now = w.Leaves(span) {
				w.Expire(span, now)
			}
			if w != (state.Window{}) {
				t.Fatalf("something is left: %v", w)
			}
		}
	})
	t.Run("keeps_counting_when_its_length_changes", func(t *testing.T) {
		t.Parallel()
		var w state.Window
		for i := range rota.Clock(6) {
			w.Count(60_000, startClock+i*10_000, 1, 0)
		}
		w.Count(600_000, startClock+55_000, 1, 0)
		w.Count(1_000_000, startClock+56_000, 1, 0)
		if n, _ := w.Total(); n != 8 {
			t.Fatalf("%d are counted", n)
		}
	})
}
