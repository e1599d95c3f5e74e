package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// changesNothing checks that a call does not change the digest that all nodes have. A new term has a separate entry: if
// one began meanwhile the call is repeated.
func changesNothing(t testing.TB, c *nodes, what string, call func()) {
	t.Helper()
	const tries = 4
	for try := 1; ; try++ {
		before, began := digestsOf(t, c)
		call()
		after, ended := digestsOf(t, c)
		switch {
		case after == before:
			return
		case began == ended:
			t.Fatalf("%s changed the state from %s to %s", what, before, after)
		case try == tries:
			t.Fatalf("each refusal caused a new term, the last is %d after %d", ended, began)
		}
	}
}

// digestsOf waits until nothing changes any more and returns the digest that all nodes have, and the term. Nodes check
// each second whether the log knows everything about a node that gossip does.
func digestsOf(t testing.TB, c *nodes) (digest string, term uint64) {
	t.Helper()
	const rest = 3 * time.Second
	last, since := "", time.Time{}
	eventually(t, 60*time.Second, "the state is at rest", func() error {
		s, err := c.status(t)
		if err != nil {
			return err
		}
		now := fmt.Sprint(s.Nodes[0].Digest)
		for _, n := range s.Nodes {
			if fmt.Sprint(n.Digest) != now {
				now = ""
			}
		}
		if now != last || now == "" {
			last, since = now, time.Now()
		}
		if time.Since(since) < rest {
			return fmt.Errorf("nodes are %+v", s.Nodes)
		}
		term = s.Term
		return nil
	})
	return last, term
}

// badInput is a command line that is refused.
type badInput struct {
	code int
	says string
	args []string
}

func (one *badInput) refused(t testing.TB, c *nodes) {
	t.Helper()
	r := c.rota(t, one.args...)
	if r.code != one.code || r.stdout != "" || !strings.Contains(r.stderr, one.says) {
		t.Errorf("rota %s: exit code %d, want %d; stderr %q should name %q", strings.Join(one.args, " "), r.code,
			one.code, r.stderr, one.says)
	}
}

// Bad input is refused by name, with the exit code that scripts know, and stores nothing. Input that is invalid by
// itself never reaches the log: the digest stays.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "paused", "--set", "paused=true").want(t, 0)
	c.rota(t, "job", "submit", "--queue", "paused", "--type", "x", "--id", "known").want(t, 0)
	c.rota(t, "job", "cancel", "known").want(t, 0)
	job := func(more ...string) []string {
		return append([]string{"job", "submit", "--queue", "paused", "--type", "x"}, more...)
	}
	wrong := []badInput{
		{2, "fancy", []string{"queue", "set", "q", "--preset", "fancy"}},
		{2, "speed", []string{"queue", "set", "q", "--set", "speed=9"}},
		{2, "age_horizon_ms", []string{"queue", "set", "q", "--set", "age_horizon_ms=0"}},
		{2, "age_horizon_ms", []string{"queue", "set", "q", "--set", "age_horizon=-1h"}},
		{2, "tenant_window_ms", []string{"queue", "set", "q", "--set", "tenant_window=0"}},
		{2, "domain_failure_threshold", []string{"queue", "set", "q", "--set", "domain_failure_threshold=NaN"}},
		{2, "min_health", []string{"queue", "set", "q", "--set", "min_health=NaN"}},
		{2, "reject_threshold", []string{"queue", "set", "q", "--set", "reject_threshold=+Inf"}},
		{2, "ranking", []string{"queue", "set", "q", "--set", "ranking=luck"}},
		{2, "SLEEPING", []string{"mode", "set", "SLEEPING", "--reason", "x"}},
		{2, "--reason", []string{"mode", "set", "DRAINING"}},
		{2, "GOLD", []string{"tenant", "set", "t", "--tier", "GOLD"}},
		{2, "weight", []string{"tenant", "set", "t", "--weight", "NaN"}},
		{2, "max_concurrent", []string{"tenant", "set", "t", "--max-concurrent", "-1"}},
		{2, "SHA-256", job("--expected-digest", "abcd")},
		{2, "--limit", job("--limit", "depth=NaN")},
		{2, "depth must be between", job("--limit", "depth=-1")},
		{2, "--expected-ms", job("--expected-ms", "-5")},
		{2, "units", job("--units", "-5")},
		{2, "data_keys", job("--data-key", "a b")},
		{2, "lease", []string{"job", "reject", "known", "--reason", "x", "--lease", "12"}},
	}
	changesNothing(t, c, "refusals", func() {
		for _, one := range wrong {
			one.refused(t, c)
		}
		nodesHoldOnTheirOwn(t, c)
	})
	// Input that only the state can reject is refused through the log, where it changes no row; such calls, and reads,
	// move the index and with it the digest.
	for _, one := range []badInput{
		{2, "w_fee", []string{"queue", "set", "q", "--set", "w_fee=0.9"}},
		{1, "CANCELLED", []string{"job", "reject", "known", "--reason", "x"}},
		{3, "nowhere", []string{"job", "submit", "--queue", "nowhere", "--type", "x"}},
		{3, "no-such", []string{"worker", "suspend", "no-such"}},
		{3, "queue", []string{"queue", "show", "q"}},
	} {
		one.refused(t, c)
	}
	if tenant := decode[rota.Tenant](t, c.rota(t, "tenant", "show", "t", "-o", "json")); tenant.Known {
		t.Errorf("a refused tenant exists: %+v", tenant)
	}
	c.verified(t, 3)
}

// nodesHoldOnTheirOwn makes calls like a client that validates nothing itself.
func nodesHoldOnTheirOwn(t *testing.T, c *nodes) {
	cl, ctx := c.dial(t), context.Background()
	digest := rota.NewJobSpec("x", nil)
	digest.Queue, digest.ExpectedDigest = "paused", []byte{1, 2, 3}
	outcomes, err := client.EachOutcome(cl.Submit(ctx, digest))
	if err != nil || rota.KindOf(outcomes[0].Err) != rota.KindInvalid ||
		rota.ErrorOf(outcomes[0].Err).Subject != "expected_digest" {
		t.Errorf("a digest of 3 bytes: %+v, %v", outcomes, err)
	}
	errOf := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"mode":   errOf(cl.SetMode(ctx, rota.ModeDraining+1, "x")),
		"reason": errOf(cl.SetMode(ctx, rota.ModeDraining, "")),
		"tenant": errOf(cl.SetTenant(ctx, "t", []rota.Setting{{Key: "speed", Value: "9"}})),
		"preset": errOf(cl.SetQueue(ctx, "q", "fancy", nil)),
		"key":    errOf(cl.SetQueue(ctx, "q", "", []rota.Setting{{Key: "speed", Value: "9"}})),
		"nan":    errOf(cl.SetQueue(ctx, "q", "", []rota.Setting{{Key: "alpha", Value: "NaN"}})),
		"proof":  errOf(cl.ReportProof(ctx, rota.ProofReport{Job: "known"})),
	} {
		if rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
