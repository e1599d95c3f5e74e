package e2e

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestSchedules: leaders are killed while a schedule is due each second; each date is decided once,
// and each run that it counts is a job.
func TestSchedules(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "schedule", "set", "tick", "--every", "1s", "--overlap", "allow", "--catch-up-max", "100", "--type",
		"t").want(t, 0)
	seen := func() rota.Schedule {
		return decode[rota.Schedule](t, c.rota(t, "schedule", "show", "tick", "-o", "json").want(t, 0))
	}
	var last rota.Schedule
	for range 3 {
		runs := last.Runs
		eventually(t, 60*time.Second, "dates become runs", func() error {
			if last = seen(); last.Runs < runs+2 {
				return rota.Refusef(rota.KindTimeout, "", "%d runs, then %d", runs, last.Runs)
			}
			return nil
		})
		leader := c.leader(t)
		leader.Kill()
		leader.start(t)
		c.awaitReady()
	}
	c.rota(t, "schedule", "pause", "tick").want(t, 0)
	last = seen()
	if due := uint64((last.Through - last.Set) / 1000); due != last.Runs+last.Skipped+last.Missed || last.Skipped > 0 {
		t.Errorf("%d dates were due, %d became runs, %d were skipped, %d missed", due, last.Runs, last.Skipped,
			last.Missed)
	}
	if len(last.Live) != int(last.Runs) {
		t.Errorf("%d runs live of %d: no worker runs them", len(last.Live), last.Runs)
	}
	for _, id := range last.Live {
		c.rota(t, "job", "show", string(id)).want(t, 0)
	}
	c.rota(t, "schedule", "set", "bad", "--cron", "61 * * * *", "--type", "t").want(t, 2)
	c.rota(t, "schedule", "set", "bad", "--cron", "@daily", "--tz", "Mars/X", "--type", "t").want(t, 2)
	c.rota(t, "schedule", "show", "bad").want(t, 3)
}
