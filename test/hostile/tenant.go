package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// clientProbes are the attempts of a client restricted to one tenant against another tenant.
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
		call("asks why a node waits whose name looks like a run's", func(ctx context.Context, c *client.Client) error {
			_, err := c.Why(ctx, "umbrella-flow/b@run")
			return err
		}),
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
		{name: "continues with the other's cursor", bites: true, try: foreignCursor},
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

// takenID submits under an id that another tenant's job has: it is refused, and the answer reveals nothing of that job.
func takenID(ctx context.Context, s *scene) (string, error) {
	err := submit(ctx, s.acme, "umbrella-idle", ours)
	if err != nil && strings.Contains(err.Error(), secretData) {
		return "", fmt.Errorf("the refusal mentions it: %w", err)
	}
	if s.plant && err != nil {
		return "", err // ids are unique in the cluster: a client that may see the job is refused too
	}
	return refused(err, rota.KindConflict, rota.KindDenied, rota.KindNotFound)
}

// sameRefusals tries to change objects that belong to the other tenant and objects that do not exist: both get the same
// refusal, except for the id.
func sameRefusals(ctx context.Context, s *scene) (string, error) {
	first := func(got []rota.JobOutcome, err error) error {
		if err == nil && len(got) == 1 {
			return got[0].Err
		}
		return err
	}
	type call struct {
		theirs string
		do     func(id string) error
	}
	calls := map[string]call{
		"cancel":          {"umbrella-idle", func(id string) error { return first(s.acme.Cancel(ctx, rota.JobID(id))) }},
		"retry":           {"umbrella-idle", func(id string) error { return first(s.acme.Retry(ctx, rota.JobID(id))) }},
		"delete":          {"umbrella-idle", func(id string) error { return first(s.acme.DeleteJobs(ctx, rota.JobID(id))) }},
		"cancel workflow": {"umbrella-flow", func(id string) error { _, err := s.acme.CancelWorkflow(ctx, rota.WorkflowID(id)); return err }},
		"retry workflow":  {"umbrella-flow", func(id string) error { _, err := s.acme.RetryWorkflow(ctx, rota.WorkflowID(id), "a"); return err }},
		"pause schedule": {"umbrella-daily", func(id string) error {
			_, err := s.acme.Schedules().Pause(ctx, rota.ScheduleName(id), "mine")
			return err
		}},
		"run schedule": {"umbrella-daily", func(id string) error {
			_, err := s.acme.Schedules().Trigger(ctx, rota.ScheduleName(id), "x")
			return err
		}},
		"seal batch": {"umbrella-batch", func(id string) error { _, err := client.BatchesOf(s.acme).Seal(ctx, rota.BatchID(id)); return err }},
		"join batch": {"umbrella-batch", func(id string) error {
			spec := rota.NewJobSpec("idle", nil)
			spec.ID, spec.Tenant, spec.Queue, spec.Batch = "acme-joins", ours, rota.QueueName(ours), rota.BatchID(id)
			_, err := s.acme.Submit(ctx, spec)
			return err
		}},
	}
	for name, c := range calls {
		if err := saysTheSame(c.theirs, c.do); err != nil {
			return "", fmt.Errorf("%s %w", name, err)
		}
	}
	return fmt.Sprintf("%d refusals say the same of both", len(calls)), nil
}

// saysTheSame calls do with the other tenant's id and with an id that does not exist, and fails if the refusals differ.
func saysTheSame(theirs string, do func(id string) error) error {
	workflow, node, _ := strings.Cut(theirs, "/")
	nobodys := "umbrella-none"
	if node != "" {
		nobodys += "/" + node
	}
	is, isNot := do(theirs), do(nobodys)
	if is == nil || isNot == nil {
		return fmt.Errorf("is not refused: %v, %v", is, isNot)
	}
	if a, b := strings.ReplaceAll(is.Error(), workflow, "ID"), strings.ReplaceAll(isNot.Error(), "umbrella-none", "ID"); a != b || rota.KindOf(is) != rota.KindOf(isNot) {
		return fmt.Errorf("distinguishes them: %q for the other's, %q for a missing one", a, b)
	}
	return nil
}

// listsNothing turns a listing into a probe: it must not return objects of the other tenant.
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

// each fails if a listed object belongs to the other tenant.
func each[T any](all func(func(T, error) bool), tenant func(T) rota.TenantID) error {
	for one, err := range all {
		if err != nil {
			return err
		}
		if tenant(one) == theirs {
			return fmt.Errorf("it has data of %s", theirs)
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

// foreignCursor continues the other tenant's list at its cursor: it must return none of the other's objects.
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

// foreignEvents reads all events of a tenant: none may mention another.
func foreignEvents(ctx context.Context, s *scene) (string, error) {
	seen := 0
	for e, err := range s.acme.Events(ctx, rota.EventFilter{}) {
		if err != nil {
			return "", err
		}
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, string(theirs)) {
			return "", fmt.Errorf("an event of kind %s mentions %s", e.Kind, theirs)
		}
		seen++
	}
	if seen == 0 {
		return "", errors.New("it has no events of its own either: this probe proves nothing")
	}
	return fmt.Sprintf("%d events, all its own", seen), nil
}

// foreignCounts reads the queue that holds only the other tenant's jobs.
func foreignCounts(ctx context.Context, s *scene) (string, error) {
	q, err := s.acme.Queue(ctx, rota.QueueName(theirs))
	if err != nil {
		return refused(err, rota.KindDenied, rota.KindNotFound)
	}
	if sum := uint64(q.Pending+q.Queued+q.Running+q.Assigned+q.Lanes) + q.SubmittedTotal + q.CompletedTotal; sum != 0 || q.OldestWait != 0 {
		return "", fmt.Errorf("the counts are visible: %+v", q)
	}
	return "all counts are 0", nil
}
