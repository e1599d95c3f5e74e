package virtual

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/peer"
)

// The promises of SPEC §3.11 and docs/reference/guarantees.md after a storm, in virtual time.
const (
	leaderWithin  = 10 * time.Second
	drainedWithin = 60 * time.Second
	calmLasts     = 20 * time.Second
	flapEvery     = 5 * time.Second
	flaps         = 8
)

// settle heals everything and measures the promises for a healed cluster.
func (l *life) settle() {
	l.calm.Store(true)
	healed := time.Now()
	l.log.Info("SETTLE")
	l.startAll()
	l.keepWorkers(true)
	admin := l.dial("admin", l.servers)
	defer admin.Close()
	if !l.within(healed, leaderWithin, func(ctx context.Context) error {
		_, err := admin.Queue(ctx, queueName)
		return err
	}) {
		l.violate("a healed cluster has a leader within 10 s", "no linearizable read succeeds")
		return
	}
	l.figures.leaderAfter = max(l.figures.leaderAfter, time.Since(healed))
	if !l.within(healed, leaderWithin, func(ctx context.Context) error { return l.resumeWorkers(ctx, admin) }) {
		l.violate("a healed cluster takes commands within 10 s", "drained workers cannot be resumed")
		return
	}
	if !l.within(healed, leaderWithin, func(ctx context.Context) error { return l.pauseSchedules(ctx, admin) }) {
		l.violate("a healed cluster takes commands within 10 s", "schedules cannot be paused")
		return
	}
	if !l.within(healed, drainedWithin, l.drained) {
		l.violate("a healed cluster works everything off within 60 s", "%s", l.undone())
		return
	}
	l.figures.drainedAfter = max(l.figures.drainedAfter, time.Since(healed))
	l.figures.settled++
	l.rate("with a stable leader", admin, 0.98, 1.01, func() { l.pause(calmLasts) })
	if l.figures.settled%3 == 1 {
		l.rate("with a leader change every 5 s", admin, 0.5, 1.01, func() {
			for range flaps {
				ctx, cancel := context.WithTimeout(l.ctx, flapEvery)
				_, _ = admin.TransferLeadership(ctx, "")
				l.figures.faults["leader change in a calm"]++
				<-ctx.Done()
				cancel()
			}
		})
	}
	l.verify(admin)
	if time.Since(l.began) < l.length {
		l.resumeSchedules(admin)
		l.calm.Store(false)
	}
}

// resumeWorkers resumes workers that a fault drained.
func (l *life) resumeWorkers(ctx context.Context, admin *client.Client) error {
	workers, err := client.Collect(admin.Workers(ctx))
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.Status != rota.WorkerDraining {
			continue
		}
		if _, err := admin.ResumeWorker(ctx, w.ID); err != nil && rota.KindOf(err) == rota.KindUnavailable {
			return err
		}
	}
	return nil
}

// within tries until a try succeeds, and reports whether one did in time.
func (l *life) within(since time.Time, most time.Duration, try func(context.Context) error) bool {
	ctx, cancel := context.WithDeadline(l.ctx, since.Add(most))
	defer cancel()
	for ctx.Err() == nil {
		if try(ctx) == nil {
			return true
		}
		l.pause(100 * time.Millisecond)
	}
	return false
}

type undoneError string

func (e undoneError) Error() string { return string(e) }

// drained reports whether all accepted jobs are over, according to the leader's state.
func (l *life) drained(ctx context.Context) error {
	s := l.leader()
	if s == nil || s.node() == nil {
		return undoneError("no node")
	}
	c, err := s.node().Status(ctx)
	if err != nil {
		return err
	}
	if left := c.Jobs.Blocked + c.Jobs.Delayed + c.Jobs.Queued + c.Jobs.Assigned + c.Jobs.Running; left > 0 {
		return undoneError(fmt.Sprintf("%+v", c.Jobs))
	}
	return nil
}

// undone describes the work that keeps the cluster from being drained.
func (l *life) undone() string {
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	var text []string
	text = append(text, fmt.Sprint(l.drained(ctx)))
	s := l.leader()
	if s == nil || s.node() == nil {
		return "no node runs"
	}
	page, _, err := s.node().Jobs(ctx, rota.JobFilter{}, peer.ReadOptions{Stale: true})
	if err != nil {
		return err.Error()
	}
	for _, j := range page.Jobs {
		if !j.State.Terminal() && len(text) < 6 {
			text = append(text, fmt.Sprintf("%s %s attempt %d reason %s lease %+v", j.ID, j.State, j.Attempt, j.Reason,
				j.Lease))
		}
	}
	workers, _, _ := s.node().Workers(ctx, peer.ReadOptions{Stale: true})
	for _, w := range workers {
		if w.Status != rota.WorkerRetired {
			text = append(text, fmt.Sprintf("worker %s %s open %d cooling %v", w.ID, w.Status, w.Open, w.Cooling))
		}
	}
	return strings.Join(text, "; ")
}

// rate measures how fast the cluster clock runs while something happens. The clock is read after an entry that was
// stamped then: at some moment of the call, which takes as long as the entry takes to commit. The clock is not
// responsible for that uncertainty.
func (l *life) rate(when string, admin *client.Client, least, most float64, meanwhile func()) {
	first := time.Now()
	before, ok := l.clockNow(admin)
	if !ok {
		return
	}
	began := time.Now()
	meanwhile()
	ended := time.Now()
	after, ok := l.clockNow(admin)
	if !ok || l.ctx.Err() != nil {
		return
	}
	last := time.Now()
	ran := float64(after - before)
	slowest, fastest := ran/float64(last.Sub(first).Milliseconds()), ran/float64(ended.Sub(began).Milliseconds())
	rate := ran / float64(last.Sub(began).Milliseconds())
	l.log.Info("RATE", "when", when, "rate", rate)
	l.figures.rates(when, rate)
	if fastest < least || slowest > most {
		l.violate("the cluster clock runs at its rate",
			"%s it ran at %.3f to %.3f for %s (its two readings took %s and %s): "+
				"%.2f to %.2f is promised", when, slowest, fastest, last.Sub(began), began.Sub(first), last.Sub(ended),
			least, most)
	}
}

// clockNow reads the cluster clock after a barrier.
func (l *life) clockNow(admin *client.Client) (rota.Clock, bool) {
	ctx, cancel := context.WithTimeout(l.ctx, leaderWithin)
	defer cancel()
	if _, err := admin.Queue(ctx, queueName); err != nil {
		if l.ctx.Err() == nil {
			l.violate("a healed cluster answers", "%v", err)
		}
		return 0, false
	}
	clock, _, _ := l.furthest()
	return clock, true
}

// verify checks every node's invariants and compares digests at one index.
func (l *life) verify(admin *client.Client) {
	ctx, cancel := context.WithTimeout(l.ctx, 30*time.Second)
	defer cancel()
	verdict, err := admin.Verify(ctx)
	switch {
	case err != nil && l.ctx.Err() == nil:
		l.violate("a healed cluster can be verified", "%v", err)
	case err == nil && !verdict.Equal:
		l.violate("all nodes hold the same state", "%+v", verdict)
	case err == nil && len(verdict.Nodes) != len(l.servers):
		l.violate("all nodes are members", "%+v", verdict)
	}
	l.figures.verified++
}
