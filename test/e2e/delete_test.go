package e2e

import (
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// cliDelete forgets a queue, drained and not, a tenant and a worker, each as a user does.
func cliDelete(t *testing.T, c *nodes) {
	for _, q := range []string{"going", "staying"} {
		c.rota(t, "queue", "set", q).want(t, 0)
	}
	if got := c.rota(t, "queue", "delete", "default").want(t, 1).stderr; !strings.Contains(got, "queue pause default") {
		t.Error(got)
	}
	c.rota(t, "job", "submit", "--queue", "going", "--type", "nobodys", "--id", "moving").want(t, 0)
	if got := c.rota(t, "queue", "delete", "going").want(t, 1).stderr; !strings.Contains(got, "--drain-to") {
		t.Error(got)
	}
	c.rota(t, "queue", "delete", "going", "--drain-to", "never").want(t, 3)
	got := object(t, c.rota(t, "queue", "delete", "going", "--drain-to", "staying", "-o", "json"))
	if got["id"] != "going" || got["deleted"] != true {
		t.Errorf("%v", got)
	}
	if j := decode[rota.Job](t, c.rota(t, "job", "show", "moving", "-o", "json")); j.Queue != "staying" {
		t.Errorf("the job is in queue %s", j.Queue)
	}
	c.rota(t, "job", "submit", "--queue", "going", "--type", "x").want(t, 3)
	c.rota(t, "queue", "delete", "going").want(t, 0)
	c.rota(t, "job", "cancel", "moving").want(t, 0)
	c.rota(t, "queue", "delete", "staying").want(t, 0)
	if names := c.rota(t, "queue", "list", "-o", "name").want(t, 0).stdout; strings.Contains(names, "going") ||
		strings.Contains(names, "staying") {
		t.Errorf("the queues are %s", names)
	}
	c.rota(t, "tenant", "set", "leaving", "--weight", "7").want(t, 0)
	c.rota(t, "tenant", "delete", "leaving").want(t, 0)
	if names := c.rota(t, "tenant", "list", "-o", "name").want(t, 0).stdout; strings.Contains(names, "leaving") {
		t.Errorf("the tenants are %s", names)
	}
	c.worker(t, "--queues", "default", "--id", "to-delete")
	if got := c.rota(t, "worker", "delete", "to-delete").want(t, 1).stderr; !strings.Contains(got, "retire it first") {
		t.Error(got)
	}
	c.rota(t, "worker", "retire", "to-delete").want(t, 0)
	c.rota(t, "worker", "delete", "to-delete").want(t, 0)
	c.rota(t, "worker", "show", "to-delete").want(t, 3)
}
