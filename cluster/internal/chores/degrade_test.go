package chores

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
)

// rehearsal is a degrader with measures set by the test, and the mode that its proposals produce.
type rehearsal struct {
	*degrader
	now  measured
	at   time.Duration
	said []string
}

func rehearse(slowMs, fullPermille int64) *rehearsal {
	r := &rehearsal{at: time.Hour}
	r.degrader = &degrader{measure: func() measured { return r.now }}
	r.slow.most, r.full.most = slowMs*1000, fullPermille
	r.propose = func(to rota.ClusterMode, reason string, holds bool) {
		r.now.mode = rota.ModeStatus{Mode: to, Reason: reason, Auto: true, Holds: holds}
		r.said = append(r.said, reason)
	}
	return r
}

// pass looks once a second for the given time.
func (r *rehearsal) pass(d time.Duration) {
	for end := r.at + d; r.at < end; r.at += degradeEvery {
		r.once(r.at)
	}
}

func (r *rehearsal) wants(t *testing.T, mode rota.ClusterMode, holds bool) {
	t.Helper()
	if r.now.mode.Mode != mode || r.now.mode.Holds != holds {
		t.Fatalf("after %v the mode is %+v, want %s with holds %v", r.at, r.now.mode, mode, holds)
	}
}

func TestDegrader(t *testing.T) {
	t.Parallel()
	t.Run("degrades_after_ten_seconds_of_slow_commits_and_holds", func(t *testing.T) {
		t.Parallel()
		r := rehearse(100, 0)
		r.now.commit = 101 * time.Millisecond
		r.pass(10 * time.Second)
		r.wants(t, rota.ModeNormal, false)
		r.pass(time.Second)
		r.wants(t, rota.ModeDegraded, true)
		if want := "commits take 101ms in the middle, the limit is 100ms"; r.said[0] != want {
			t.Fatalf("the reason is %q", r.said[0])
		}
		r.pass(time.Minute)
		if len(r.said) != 1 {
			t.Fatalf("got lines %q", r.said)
		}
	})
	t.Run("recovers_after_thirty_seconds_below_four_fifths", func(t *testing.T) {
		t.Parallel()
		r := rehearse(100, 0)
		r.now.commit = time.Second
		r.pass(12 * time.Second)
		r.now.commit = 81 * time.Millisecond
		r.pass(5 * time.Minute)
		r.wants(t, rota.ModeDegraded, true)
		r.now.commit = 79 * time.Millisecond
		r.pass(30 * time.Second)
		r.wants(t, rota.ModeDegraded, true)
		r.pass(time.Second)
		r.wants(t, rota.ModeNormal, false)
	})
	t.Run("a_short_peak_changes_nothing", func(t *testing.T) {
		t.Parallel()
		r := rehearse(100, 800)
		for range 20 {
			r.now.commit, r.now.permille = time.Second, 1000
			r.pass(8 * time.Second)
			r.now.commit, r.now.permille = 0, 0
			r.pass(2 * time.Second)
		}
		if len(r.said) != 0 {
			t.Fatalf("got lines %q", r.said)
		}
	})
	t.Run("a_full_queue_refuses_without_holding_and_slow_commits_go_before", func(t *testing.T) {
		t.Parallel()
		r := rehearse(100, 800)
		r.now.queue, r.now.permille = "crawl", 801
		r.pass(12 * time.Second)
		r.wants(t, rota.ModeDegraded, false)
		if !strings.Contains(r.said[0], "queue crawl is 801 permille full, the limit is 800") {
			t.Fatalf("the reason is %q", r.said[0])
		}
		r.now.commit = time.Second
		r.pass(12 * time.Second)
		r.wants(t, rota.ModeDegraded, true)
		r.now.commit = 0
		r.pass(32 * time.Second)
		r.wants(t, rota.ModeDegraded, false)
		r.now.permille = 100
		r.pass(32 * time.Second)
		r.wants(t, rota.ModeNormal, false)
	})
	t.Run("leaves_an_operators_mode_alone", func(t *testing.T) {
		t.Parallel()
		for _, mode := range []rota.ClusterMode{rota.ModeDegraded, rota.ModeReadOnly, rota.ModeDraining} {
			r := rehearse(100, 800)
			r.now.mode = rota.ModeStatus{Mode: mode, Holds: mode == rota.ModeDegraded}
			r.now.commit = time.Second
			r.pass(time.Minute)
			r.now.commit = 0
			r.pass(time.Minute)
			if len(r.said) != 0 {
				t.Fatalf("%s: got lines %q", mode, r.said)
			}
		}
	})
	t.Run("takes_back_what_an_earlier_leader_set_even_where_it_is_off", func(t *testing.T) {
		t.Parallel()
		for _, holds := range []bool{true, false} {
			r := rehearse(0, 0)
			r.now.mode = rota.ModeStatus{Mode: rota.ModeDegraded, Auto: true, Holds: holds}
			r.adopt(r.now.mode)
			r.now.commit, r.now.permille = time.Second, 1000
			r.pass(30 * time.Second)
			r.wants(t, rota.ModeDegraded, holds)
			r.pass(time.Second)
			r.wants(t, rota.ModeNormal, false)
		}
	})
	t.Run("off_it_says_nothing", func(t *testing.T) {
		t.Parallel()
		r := rehearse(0, 0)
		r.now.commit, r.now.permille = time.Minute, 1000
		r.pass(10 * time.Minute)
		if len(r.said) != 0 {
			t.Fatalf("got lines %q", r.said)
		}
	})
}

func TestLatencies(t *testing.T) {
	t.Parallel()
	var l meter.Latencies
	if l.Median(time.Hour) != 0 {
		t.Fatal("without commits there is no latency")
	}
	for i := range 2 * meter.LatenciesKept { // the ring wraps around
		l.Note(time.Hour, time.Duration(i)*time.Millisecond)
	}
	if m := l.Median(time.Hour); m != meter.LatenciesKept*3/2*time.Millisecond {
		t.Fatalf("median %v", m)
	}
	if m := l.Median(time.Hour + meter.DegradeAfter); m != 0 {
		t.Fatalf("past samples count: %v", m)
	}
}
