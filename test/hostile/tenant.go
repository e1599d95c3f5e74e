package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// clientProbes are what a client narrowed to one tenant tries against another's.
func clientProbes() []probe {
	missing := []rota.Kind{rota.KindNotFound, rota.KindDenied}
	call := func(name string, do func(ctx context.Context, c *client.Client) error) probe {
		return probe{name: name, bites: true, try: func(ctx context.Context, s *scene) (string, error) { return refused(do(ctx, s.acme), missing...) }}
	}
	outcome := func(name string, do func(ctx context.Context, c *client.Client, id rota.JobID) ([]rota.JobOutcome, error)) probe {
		return call(name, func(ctx context.Context, c *client.Client) error {
			got, err := do(ctx, c, "umbrella-idle")
			if err == nil && len(got) == 1 {
				err = got[0].Err
			}
			return err
		})
	}
	return []probe{
		call("reads a job", func(ctx context.Context, c *client.Client) error { _, err := c.Job(ctx, "umbrella-idle"); return err }),
		call("reads a job on a stale node", func(ctx context.Context, c *client.Client) error {
			_, err := c.Job(ctx, "umbrella-done", client.Stale())
			return err
		}),
		call("waits for a job", func(ctx context.Context, c *client.Client) error { return lastOf(c.Wait(ctx, "umbrella-done")) }),
		call("asks why a job waits", func(ctx context.Context, c *client.Client) error { _, err := c.Why(ctx, "umbrella-idle"); return err }),
		{name: "asks why a job waited, in the past", bites: true, try: func(ctx context.Context, s *scene) (string, error) {
			_, err := s.acme.WhyAt(ctx, "umbrella-idle", rota.WhyQuery{At: s.loaded})
			return refused(err, missing...)
		}},
		outcome("cancels a job", func(ctx context.Context, c *client.Client, id rota.JobID) ([]rota.JobOutcome, error) {
			return c.Cancel(ctx, id)
		}),
		outcome("retries a job", func(ctx context.Context, c *client.Client, id rota.JobID) ([]rota.JobOutcome, error) {
			return c.Retry(ctx, id)
		}),
		outcome("deletes a job", func(ctx context.Context, c *client.Client, id rota.JobID) ([]rota.JobOutcome, error) {
			return c.DeleteJobs(ctx, id)
		}),
		call("changes a job", func(ctx context.Context, c *client.Client) error {
			priority := int32(1)
			got, err := c.ChangeJob(ctx, rota.JobChange{ID: "umbrella-idle", Priority: &priority})
			return errors.Join(err, got.Err)
		}),
		call("reports a proof as invalid", func(ctx context.Context, c *client.Client) error {
			_, err := c.ReportProof(ctx, rota.ProofReport{Job: "umbrella-done", Reason: "mine"})
			return err
		}),
		call("submits in the other's name", func(ctx context.Context, c *client.Client) error { return submit(ctx, c, "acme-steals", theirs) }),
		call("reads a workflow", func(ctx context.Context, c *client.Client) error {
			_, err := c.Workflow(ctx, "umbrella-flow")
			return err
		}),
		call("reads a workflow's graph", func(ctx context.Context, c *client.Client) error {
			_, err := c.WorkflowGraph(ctx, "umbrella-flow")
			return err
		}),
		call("cancels a workflow", func(ctx context.Context, c *client.Client) error {
			_, err := c.CancelWorkflow(ctx, "umbrella-flow")
			return err
		}),
		call("retries a workflow", func(ctx context.Context, c *client.Client) error {
			_, err := c.RetryWorkflow(ctx, "umbrella-flow", "a")
			return err
		}),
		call("submits a workflow in the other's name", func(ctx context.Context, c *client.Client) error {
			_, err := c.SubmitWorkflow(ctx, rota.WorkflowSpec{ID: "acme-steals", Tenant: theirs, Nodes: []rota.NodeSpec{rota.NewNodeSpec("a", "idle", nil)}})
			return err
		}),
		call("reads the tenant", func(ctx context.Context, c *client.Client) error { _, err := c.Tenant(ctx, theirs); return err }),
		call("reads events by the other's job", func(ctx context.Context, c *client.Client) error {
			for e, err := range c.Events(ctx, rota.EventFilter{Job: "umbrella-idle"}) {
				if err != nil {
					return err
				}
				return fmt.Errorf("an event of %s", e.Kind)
			}
			return rota.Refusef(rota.KindNotFound, "", "no event comes")
		}),
		{name: "submits under the other's id", bites: true, try: takenID},
		{name: "asks by refusals which ids there are", bites: true, try: sameRefusals},
		{name: "lists jobs", bites: true, try: listsNothing(func(ctx context.Context, c *client.Client) error {
			return each(c.Jobs(ctx, rota.JobFilter{}), func(j rota.Job) rota.TenantID { return j.Tenant })
		})},
		{name: "lists the other's jobs by a filter", bites: true, try: listsNothing(func(ctx context.Context, c *client.Client) error {
			return each(c.Jobs(ctx, rota.JobFilter{Tenant: theirs, Queue: rota.QueueName(theirs)}), func(j rota.Job) rota.TenantID { return j.Tenant })
		})},
		{name: "goes on with the other's cursor", bites: true, try: foreignCursor},
		{name: "lists workflows", bites: true, try: listsNothing(func(ctx context.Context, c *client.Client) error {
			return each(c.Workflows(ctx, rota.WorkflowFilter{}), func(w rota.Workflow) rota.TenantID { return w.Tenant })
		})},
		{name: "lists tenants", bites: true, try: listsNothing(func(ctx context.Context, c *client.Client) error {
			return each(c.Tenants(ctx), func(t rota.Tenant) rota.TenantID { return t.ID })
		})},
		{name: "tails all events", bites: true, try: foreignEvents},
		{name: "reads the counts of the other's queue", bites: true, try: foreignCounts},
	}
}

// submit submits one job.
func submit(ctx context.Context, c *client.Client, id rota.JobID, tenant rota.TenantID) error {
	spec := rota.NewJobSpec("idle", nil)
	spec.ID, spec.Tenant, spec.Queue = id, tenant, rota.QueueName(tenant)
	_, err := c.Submit(ctx, spec)
	return err
}

// takenID submits under an id that another tenant's job has: it is refused, and nothing of that
// job is said.
func takenID(ctx context.Context, s *scene) (string, error) {
	err := submit(ctx, s.acme, "umbrella-idle", ours)
	if err != nil && strings.Contains(err.Error(), secretData) {
		return "", fmt.Errorf("the refusal says of it: %w", err)
	}
	if s.plant && err != nil {
		return "", err // an id is one job of the cluster: who sees it too is refused
	}
	return refused(err, rota.KindConflict, rota.KindDenied, rota.KindNotFound)
}

// sameRefusals changes what is the other's and what is nobody's: each is refused in the same
// words, but for the id.
func sameRefusals(ctx context.Context, s *scene) (string, error) {
	first := func(got []rota.JobOutcome, err error) error {
		if err == nil && len(got) == 1 {
			return got[0].Err
		}
		return err
	}
	calls := map[string]func(job, flow string) error{
		"cancel":          func(job, _ string) error { return first(s.acme.Cancel(ctx, rota.JobID(job))) },
		"retry":           func(job, _ string) error { return first(s.acme.Retry(ctx, rota.JobID(job))) },
		"delete":          func(job, _ string) error { return first(s.acme.DeleteJobs(ctx, rota.JobID(job))) },
		"cancel workflow": func(_, flow string) error { _, err := s.acme.CancelWorkflow(ctx, rota.WorkflowID(flow)); return err },
		"retry workflow": func(_, flow string) error {
			_, err := s.acme.RetryWorkflow(ctx, rota.WorkflowID(flow), "a")
			return err
		},
	}
	for name, call := range calls {
		theirs, nobodys := call("umbrella-idle", "umbrella-flow"), call("umbrella-none", "umbrella-none")
		if theirs == nil || nobodys == nil {
			return "", fmt.Errorf("%s is not refused: %v, %v", name, theirs, nobodys)
		}
		plain := strings.NewReplacer("umbrella-idle", "ID", "umbrella-flow", "ID", "umbrella-none", "ID")
		if a, b := plain.Replace(theirs.Error()), plain.Replace(nobodys.Error()); a != b || rota.KindOf(theirs) != rota.KindOf(nobodys) {
			return "", fmt.Errorf("%s tells them apart: %q of the other's, %q of nobody's", name, a, b)
		}
	}
	return fmt.Sprintf("%d refusals say the same of both", len(calls)), nil
}

// listsNothing turns a listing into a probe: none of what it lists may be the other's.
func listsNothing(list func(ctx context.Context, c *client.Client) error) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		if err := list(ctx, s.acme); err != nil {
			if rota.KindOf(err) == rota.KindDenied || rota.KindOf(err) == rota.KindNotFound {
				return err.Error(), nil
			}
			return "", err
		}
		return "none of it is the other's", nil
	}
}

// each fails where something listed is the other's.
func each[T any](all func(func(T, error) bool), tenant func(T) rota.TenantID) error {
	for one, err := range all {
		if err != nil {
			return err
		}
		if tenant(one) == theirs {
			return fmt.Errorf("it has what is %s's", theirs)
		}
	}
	return nil
}

// lastOf returns the error that ends a sequence.
func lastOf[T any](all func(func(T, error) bool)) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

// foreignCursor goes on where the other's list was cut: behind it come none of the other's.
func foreignCursor(ctx context.Context, s *scene) (string, error) {
	cursor := ""
	for _, err := range s.umbrella.Jobs(ctx, rota.JobFilter{Limit: 1}, client.Next(&cursor)) {
		if err != nil {
			return "", err
		}
	}
	if cursor == "" {
		return "", errors.New("the other's list has no cursor: this probe proves nothing")
	}
	return listsNothing(func(ctx context.Context, c *client.Client) error {
		return each(c.Jobs(ctx, rota.JobFilter{Cursor: cursor}), func(j rota.Job) rota.TenantID { return j.Tenant })
	})(ctx, s)
}

// foreignEvents reads all events that there are for a tenant: none may speak of another.
func foreignEvents(ctx context.Context, s *scene) (string, error) {
	seen := 0
	for e, err := range s.acme.Events(ctx, rota.EventFilter{}) {
		if err != nil {
			return "", err
		}
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, string(theirs)) {
			return "", fmt.Errorf("an event of kind %s speaks of %s", e.Kind, theirs)
		}
		seen++
	}
	if seen == 0 {
		return "", errors.New("it has no events of its own either: this probe proves nothing")
	}
	return fmt.Sprintf("%d events, all its own", seen), nil
}

// foreignCounts reads the queue in which only the other's jobs are.
func foreignCounts(ctx context.Context, s *scene) (string, error) {
	q, err := s.acme.Queue(ctx, rota.QueueName(theirs))
	if err != nil {
		return refused(err, rota.KindDenied, rota.KindNotFound)
	}
	if sum := uint64(q.Pending+q.Queued+q.Running+q.Assigned+q.Lanes) + q.SubmittedTotal + q.CompletedTotal; sum != 0 || q.OldestWait != 0 {
		return "", fmt.Errorf("the counts are told: %+v", q)
	}
	return "all counts are 0", nil
}
