package meter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// ended returns an event of a job that ended at a date.
func ended(kind rota.EventKind, queue rota.QueueName, at time.Time, text string) rota.Event {
	return rota.Event{Kind: kind, Queue: queue, Job: "j", Date: rota.DateOf(at), Text: text}
}

// recentAt returns the content of a counter at a moment.
func recentAt(t *testing.T, r *Recent, now time.Time) map[rota.QueueName]peer.QueueRecent {
	t.Helper()
	return r.Ended(rota.DateOf(now))
}

func TestRecent_countsByDate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 30, 0, time.UTC)
	r := NewRecent()
	r.Count([]rota.Event{
		ended(rota.EventJobDead, "q", now.Add(-20*time.Minute), "too old"), // replayed: not recent
		ended(rota.EventJobDead, "q", now.Add(-3*time.Minute), "first"),
		ended(rota.EventJobExpired, "q", now.Add(-time.Minute), "newest"),
		ended(rota.EventJobCompleted, "q", now, ""),
		ended(rota.EventJobAssigned, "q", now, "no end"),
	})
	got := recentAt(t, r, now)["q"]
	if got.FailedJobs() != 2 || got.Failed[11] != 1 || got.Failed[13] != 1 || got.Completed[14] != 1 {
		t.Errorf("got failed %v and completed %v, want one failure 3 min and one 1 min ago, one completion now",
			got.Failed, got.Completed)
	}
	if got.First != rota.DateOf(now.Add(-3*time.Minute)) || got.Error != "newest" || got.Job != "j" {
		t.Errorf("got first %v, job %q, error %q, want the first failure of the quarter and the newest error",
			got.First, got.Job, got.Error)
	}
	if later := recentAt(t, r, now.Add(14*time.Minute))["q"]; later.FailedJobs() != 0 || later.Error != "" {
		t.Errorf("14 minutes later: got %+v, want no failure and no error", later)
	}
}

func TestRecent_isBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	r := NewRecent()
	for i := range limits.RecentQueues {
		r.Count([]rota.Event{ended(rota.EventJobDead, rota.QueueName(fmt.Sprint("old", i)), now.Add(-time.Hour), "")})
	}
	r.Count([]rota.Event{ended(rota.EventJobDead, "new", now, strings.Repeat("é", limits.RecentError))})
	if got := recentAt(t, r, now)["new"]; got.FailedJobs() != 1 || len(got.Error) > limits.RecentError {
		t.Errorf("got %d failures and an error of %d bytes, want 1 and at most %d", got.FailedJobs(), len(got.Error),
			limits.RecentError)
	}
	if len(r.queues) > limits.RecentQueues {
		t.Errorf("got %d queues, want at most %d", len(r.queues), limits.RecentQueues)
	}
}

func TestRecent_usualWaitIsThe95thPercentile(t *testing.T) {
	t.Parallel()
	r := NewRecent()
	now := time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)
	waits := slices.Repeat([]time.Duration{time.Second}, 99)
	for i, wait := range append(waits, time.Hour) {
		r.sample([]rota.Queue{{Name: "q", OldestWait: wait}}, rota.DateOf(now.Add(time.Duration(i)*time.Minute)))
	}
	if got := recentAt(t, r, now.Add(100*time.Minute))["q"].UsualWaitMs; got != 1_024 {
		t.Errorf("got a usual wait of %d ms, want the class of 1 s, 1,024", got)
	}
	r.sample([]rota.Queue{{Name: "q", OldestWait: time.Minute}}, rota.DateOf(now.Add(48*time.Hour)))
	if got := recentAt(t, r, now.Add(48*time.Hour))["q"].UsualWaitMs; got != 65_536 {
		t.Errorf("two days later: got %d ms, want the class of the one sample, 65,536", got)
	}
}
