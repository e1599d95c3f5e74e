package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestETAOverTheWire is `rota job eta` on three processes: its exit codes, its JSON, and each kind of answer, from each node.
func TestETAOverTheWire(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	cl := c.dial(t)
	q := c.policyQueue(t, "ahead", "standard")
	submitAll(t, cl, policyJob("lonely", q))
	eta := func(id string, more ...string) rota.ETA {
		t.Helper()
		return decode[rota.ETA](t, c.rota(t, append([]string{"job", "eta", id, "-o", "json"}, more...)...))
	}
	r := c.rota(t, "job", "eta", "lonely", "-o", "json").want(t, 0)
	fields(t, "the forecast", object(t, r), "job", "state", "index", "clock_ms", "date_ms", "date_at", "basis",
		"reasons", "would_run_if")
	if x := eta("lonely"); x.Expected != 0 || len(x.Reasons) == 0 || x.Reasons[0].Reason != "NO_WORKER_REGISTERED" {
		t.Errorf("without a worker: %+v", x)
	}
	contains(t, "the text", c.rota(t, "job", "eta", "lonely").want(t, 0).stdout, "no date can be given",
		"NO_WORKER_REGISTERED", "it would run if")

	w := c.puppet(t, "eta-w", q, 1)
	w.serves("lonely")
	third := policyJob("third", q)
	third.Delay = 10 * time.Millisecond // it comes behind the second
	submitAll(t, cl, policyJob("second", q), third)
	for _, n := range c.all {
		eventually(t, 20*time.Second, n.ID+" forecasts", func() error {
			r := n.at(t, "job", "eta", "third", "-o", "json")
			if r.code != 0 {
				return errors.New(r.stderr)
			}
			x := parse[rota.ETA](t, r)
			if x.Expected <= x.Date || x.Earliest > x.Expected || x.Expected > x.Latest || len(x.Reasons) > 0 ||
				!slices.Contains(x.HangsOn, rota.HangsOn{Tenant: rota.DefaultTenant, Jobs: 1, Running: true,
					Worker: "eta-w"}) ||
				!slices.Contains(x.HangsOn, rota.HangsOn{Tenant: rota.DefaultTenant, Jobs: 1}) {
				return fmt.Errorf("%+v", x)
			}
			return nil
		})
	}
	contains(t, "the text", c.rota(t, "job", "eta", "third").want(t, 0).stdout, "starts", "from", "to",
		"1 job of tenant default on worker eta-w")
	contains(t, "the job", c.rota(t, "job", "show", "third").want(t, 0).stdout, "it should start at")
	if x := eta("lonely"); x.Started == 0 || x.Expected != 0 {
		t.Errorf("of a running job: %+v", x)
	}
	w.ends("lonely", nil)
	w.serves("second")
	if x := eta("lonely"); x.State != rota.JobCompleted || x.Started == 0 {
		t.Errorf("of an ended job: %+v", x)
	}
	w.ends("second", nil)
	w.serves("third")
	w.ends("third", nil)
	c.rota(t, "job", "eta", "no-such-job").want(t, 3)
	c.rota(t, "job", "eta").want(t, 2)
	c.rota(t, "job", "eta", "/b").want(t, 2)
	c.rota(t, "job", "eta", "a", "b").want(t, 2)
	c.verified(t, 3)
}

// TestETA_withoutLeader: of three nodes one is left. It forecasts from the state that it has, reports how old that
// state is, and gives the same answer when asked twice.
func TestETA_withoutLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	cl := c.dial(t)
	q := c.policyQueue(t, "alone", "standard")
	w := c.puppet(t, "alone-w", q, 1)
	submitAll(t, cl, policyJob("runs", q))
	w.serves("runs")
	submitAll(t, cl, policyJob("waits", q))
	last := c.followers(t)[0]
	eventually(t, 20*time.Second, last.ID+" has what the leader has", func() error { return c.hasApplied(t, last) })
	for _, n := range c.all {
		if n != last {
			n.Kill()
		}
	}
	left := &nodes{t: t, all: []*node{last}}
	ask := func() rota.ETA {
		t.Helper()
		return decode[rota.ETA](t, left.rota(t, "job", "eta", "waits", "-o", "json").want(t, 0))
	}
	x := ask()
	if x.State != rota.JobQueued || x.Expected <= x.Date || x.Earliest > x.Expected || x.Expected > x.Latest ||
		!slices.Contains(x.HangsOn, rota.HangsOn{Tenant: rota.DefaultTenant, Jobs: 1, Running: true,
			Worker: "alone-w"}) {
		t.Errorf("without a leader: %+v", x)
	}
	contains(t, "the basis", strings.Join(x.Basis, "\n"), "no leader answers: the state is that of")
	if again := ask(); again.Index != x.Index || again.Date != x.Date || again.Expected != x.Expected {
		t.Errorf("the same state has another forecast: %+v, then %+v", x, again)
	}
	contains(t, "the text", left.rota(t, "job", "eta", "waits").want(t, 0).stdout, "starts", "no leader answers")
	left.rota(t, "job", "eta", "nobody").want(t, 3)
}
