package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestHidden: a reader that lacks the right to data sees no content that users put into their jobs, and one that lacks
// that right and audits sees no event of any tenant; both by the job's own tenant and queue.
func TestHidden(t *testing.T) {
	t.Parallel()
	look := func(grants ...rota.Grant) (text string, events int) {
		rights := rightsOf(grants)
		rd := NewReader(&rights)
		job := rota.Job{JobSpec: rota.JobSpec{ID: "j1", Tenant: "acme", Queue: "default", Payload: []byte("secret")},
			Output: []byte("secret"), Meta: map[string]string{"a": "secret"}, Error: "secret", ProgressNote: "secret",
			Attempts: []rota.Attempt{{Error: "secret"}}}
		kept := job.Attempts[0]
		if !rd.Job(&job) {
			job = rota.Job{}
		}
		schedule := rota.Schedule{ScheduleSpec: rota.ScheduleSpec{Name: "s", Job: job.JobSpec}}
		if schedule.Job.Tenant, schedule.Job.Queue, schedule.Job.Payload = "acme", "default", []byte(
			"secret"); !rd.Schedule(&schedule) {
			schedule = rota.Schedule{}
		}
		all := []rota.ServedEvent{{Event: rota.Event{Kind: rota.EventModeChanged, Text: "secret"}},
			{Event: rota.Event{Kind: rota.EventJobEnqueued, Job: "j1", Tenant: "acme", Queue: "default",
				Text: "secret"}}}
		some := rd.Events(all)
		if all[1].Text != "secret" || kept.Error != "secret" {
			t.Error("the fields shown to others have changed")
		}
		return fmt.Sprintf("%s %s %s %v %s %s %v %v", schedule.Job.Payload, job.Payload, job.Output, job.Meta,
			job.Error, job.ProgressNote, job.Attempts, some), len(some)
	}
	acme := func(r rota.Right) rota.Grant { return rota.Grant{Right: r, Tenant: "acme", Queue: "default"} }
	all := rota.Grant{Right: rota.RightAudit, Tenant: Everything, Queue: Everything}
	for _, c := range []struct {
		name            string
		grants          []rota.Grant
		secrets, events int
	}{
		{"nobody", nil, 0, 0},
		{"of another tenant", []rota.Grant{{Right: rota.RightRead, Tenant: "umbrella", Queue: "default"}}, 0, 0},
		{"of another queue", []rota.Grant{{Right: rota.RightRead, Tenant: "acme", Queue: "other"}}, 0, 0},
		{"a reader", []rota.Grant{acme(rota.RightRead)}, 0, 1},
		{"a reader with another's data", []rota.Grant{acme(rota.RightRead),
			{Right: rota.RightData, Tenant: "umbrella", Queue: "default"}},
			0, 1}, {"with data", []rota.Grant{acme(rota.RightRead), acme(rota.RightData)}, 8, 1},
		{"with audit", []rota.Grant{acme(rota.RightRead), all}, 1, 2},
	} {
		if text, events := look(c.grants...); strings.Count(text, "secret") != c.secrets || events != c.events {
			t.Errorf("%s is shown %d events and %s", c.name, events, text)
		}
	}
}

// TestFiguresOfOthers: only readers of everything see figures that depend on the jobs of all tenants.
func TestFiguresOfOthers(t *testing.T) {
	t.Parallel()
	decision := rota.Decision{Score: 7, Rank: 3, Reasoning: rota.Reasoning{Rule: rota.ReasoningByLeastLoaded, N: 2,
		Of: 1}}
	look := func(tenant string) (job rota.Job, x rota.Explanation, e rota.ServedEvent) {
		rights := rightsOf([]rota.Grant{{Right: rota.RightRead, Tenant: tenant, Queue: Everything}})
		rd := NewReader(&rights)
		lease := rota.Lease{Decision: decision}
		job = rota.Job{JobSpec: rota.JobSpec{Tenant: "acme", Queue: "default"},
			Attempts: []rota.Attempt{{Decision: decision}}, Lease: &lease}
		kept := job.Attempts
		rd.Job(&job)
		if kept[0].Decision.Rank != 3 || lease.Decision.Rank != 3 {
			t.Error("the fields shown to others have changed")
		}
		x = rota.Explanation{Decision: &rota.PlacedDecision{Decision: decision},
			Decisions: []rota.PlacedDecision{{Decision: decision}}}
		rd.Explanation(&x)
		events := rd.Events([]rota.ServedEvent{{Event: rota.Event{Kind: rota.EventJobAssigned, Tenant: "acme",
			Queue: "default", Payload: `{"rank":3}`},
			PayloadHash: rota.Hex("hash"), Prior: rota.Digest{Hi: 1}, Post: rota.Digest{Hi: 2}}})
		return job, x, events[0]
	}
	for tenant, hidden := range map[string]bool{"acme": true, Everything: false} {
		job, x, e := look(tenant)
		for name, d := range map[string]rota.Decision{"attempt": job.Attempts[0].Decision, "lease": job.Lease.Decision,
			"decision": x.Decision.Decision, "decisions": x.Decisions[0].Decision} {
			if (d.Rank == 0) != hidden || (d.Reasoning.N == 0) != hidden || (d.Reasoning.Of == 0) != hidden ||
				d.Score != 7 ||
				d.Reasoning.Rule != rota.ReasoningByLeastLoaded {
				t.Errorf("a reader of tenant %s is shown %+v as %s", tenant, d, name)
			}
		}
		if (e.Payload == "") != hidden || (e.PayloadHash == nil) != hidden || (e.Prior == rota.Digest{}) != hidden ||
			(e.Post == rota.Digest{}) != hidden {
			t.Errorf("a reader of tenant %s is shown %+v", tenant, e)
		}
	}
}
