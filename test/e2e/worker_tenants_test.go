package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestWorkersOfTwoTenants: two workers, each with a token for one tenant, share a queue. Each gets only its own
// tenant's jobs; jobs that neither may have wait and report that; a worker cannot register for a queue that its token
// does not cover, and another tenant's token takes over a worker only with that worker's secret.
func TestWorkersOfTwoTenants(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	secrets := make(map[string]string)
	for _, tenant := range []string{"acme", "umbrella"} {
		secrets[tenant] = writeFile(t, filepath.Join(t.TempDir(), "secret"), strings.Repeat(tenant, 4))
		token := c.tokenFile(t, "--role", "worker", "--tenant", tenant, "--queue", "default")
		c.worker(t, append(token, "--queues", "default", "--id", "of-"+tenant, "--secret-file", secrets[tenant],
			"--exec", "cat")...)
		c.rota(t, append(token, "worker", "run", "--queues", "elsewhere", "--exec", "cat")...).want(t, 8)
	}
	c.rota(t, "job", "submit", "--tenant", "other", "--id", "other-job", "--type", "x").want(t, 0)
	for _, tenant := range []string{"umbrella", "acme"} {
		for _, id := range []string{"-1", "-2", "-3"} {
			c.rota(t, "job", "submit", "--tenant", tenant, "--id", tenant+id, "--type", "x", "--wait").want(t, 0)
			contains(t, "who ran it", c.rota(t, "job", "show", tenant+id).want(t, 0).stdout, "of-"+tenant)
		}
	}
	contains(t, "why it waits", c.rota(t, "job", "why", "other-job").want(t, 0).stdout, "TENANT_NOT_GRANTED", "other",
		"it would run if")
	whyNames(t, c.why(t, "other-job"), "TENANT_NOT_GRANTED", 2)

	foreign := append(c.tokenFile(t, "--role", "worker", "--tenant", "umbrella"), "--queues", "default", "--id",
		"of-acme", "--takeover", "--exec", "cat")
	takeover := func(more ...string) []string { return append(append([]string{"worker", "run"}, foreign...), more...) }
	contains(t, "the refusal", c.rota(t, takeover()...).want(t, 1).stderr, "of-acme is taken")
	c.rota(t, takeover("--takeover-secret-file", secrets["umbrella"])...).want(t, 1)
	c.worker(t, takeover("--takeover-secret-file", secrets["acme"])[2:]...)
	c.rota(t, "job", "submit", "--tenant", "acme", "--id", "acme-waits", "--type", "x").want(t, 0)
	eventually(t, 20*time.Second, "acme has no worker any more", func() error {
		whyNames(t, c.why(t, "acme-waits"), "TENANT_NOT_GRANTED", 2)
		return nil
	})
}

// TestLeaseOfAnother: a lease belongs to its worker, under the principal that registered it: the holder of another
// token neither renews nor completes it, on a separate worker, and does not register under its id; one with the right
// to workers takes the id over.
func TestLeaseOfAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	n := c.all[0]
	acme, umbrella := c.tokenFile(t, "--role", "worker", "--tenant", "acme"), c.tokenFile(t, "--role", "worker",
		"--tenant", "umbrella")
	ours := c.handOf(t, n, acme, "ours", rota.DefaultQueue, 2)
	theirs := c.handOf(t, n, umbrella, "theirs", rota.DefaultQueue, 2)
	for _, tenant := range []string{"umbrella", "acme"} {
		c.rota(t, "job", "submit", "--tenant", tenant, "--id", tenant+"-job", "--type", "x").want(t, 0)
	}
	lease := ours.serves("acme-job")
	ours.does(rota.VerbAck, lease)
	theirs.does(rota.VerbAck, theirs.serves("umbrella-job"))
	for _, verb := range []rota.LeaseVerb{rota.VerbRenew, rota.VerbComplete, rota.VerbFail, rota.VerbDecline} {
		theirs.refused(rota.KindDenied, verb, lease)
	}
	run := func(token []string, more ...string) *result {
		return c.rota(t, append(append([]string{"worker", "run"}, token...),
			append([]string{"--queues", "default", "--id", "ours", "--exec", "cat"}, more...)...)...)
	}
	contains(t, "the refusal", run(umbrella).want(t, 1).stderr, "taken")
	run(umbrella, "--takeover").want(t, 1)
	contains(t, "the refusal", run(c.tokenFile(t, "--role", "worker"), "--takeover").want(t, 8).stderr,
		"--takeover-secret-file")
	own := writeFile(t, filepath.Join(t.TempDir(), "secret"), string(handSecret("ours")))
	run(c.tokenFile(t, "--role", "worker", "--queue", "elsewhere"), "--secret-file", own).want(t, 8)
	if j := c.job(t, "acme-job"); j.State != rota.JobRunning {
		t.Errorf("the job is %s", j.State)
	}
	ours.does(rota.VerbComplete, lease)

	c.rota(t, "auth", "role", "set", "foreman", "--grant", "work tenant=umbrella", "--grant", "workers").want(t, 0)
	c.worker(t, append(c.tokenFile(t, "--role", "foreman"), "--queues", "default", "--id", "ours", "--takeover",
		"--exec", "cat")...)
}
