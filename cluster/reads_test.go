package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// twoTenants is a node with live, leased, ended and waiting jobs of the tenants acme and umbrella; everything of
// umbrella has its name in it. It returns the context of a caller that may read acme's in one queue.
func twoTenants(t *testing.T) (*Node, context.Context) {
	t.Helper()
	b := startBench(t, 1)
	n := b.leader()
	ctx := called(within(t, ample), rota.Local)
	propose := func(op *fsmpb.Op) {
		t.Helper()
		if _, _, err := n.proposer.proposeOne(ctx, op); err != nil {
			t.Fatal(err)
		}
	}
	role := &fsmpb.SetRole{Name: "acmes"}
	for _, r := range []rota.Right{rota.RightRead, rota.RightSubmit, rota.RightControl, rota.RightVerdict} {
		role.Grants = append(role.Grants, &fsmpb.Grant{Right: uint32(r), Tenant: "acme", Queue: "default"})
	}
	id := strings.Repeat("a", 12)
	propose(&fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: role}})
	propose(&fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: &fsmpb.CreateToken{Id: id, Hash: make([]byte, 32),
		Roles:     []string{"acmes"},
		ExpiresMs: time.Now().Add(time.Hour).UnixMilli()}}})
	all := within(t, ample)
	if _, err := n.SetQueue(all, "umbrella-queue", "", nil); err != nil {
		t.Fatal(err)
	}
	h := newHand(t, n, "umbrella-worker", 4)
	for _, tenant := range []rota.TenantID{"acme", "umbrella"} {
		if _, err := n.SetTenant(all, tenant, []rota.Setting{{Key: "weight", Value: "2"}}); err != nil {
			t.Fatal(err)
		}
		jobs := specs(string(tenant)+"-leased", 2)
		ended := specs(string(tenant)+"-ended", 3)
		for i := range jobs {
			jobs[i].Tenant, jobs[i].Payload = tenant, []byte(tenant)
		}
		for i := range ended {
			ended[i].Tenant = tenant
			ended[i].NotBefore = time.Now().Add(time.Hour)
		}
		submitAll(t, n, append(jobs, ended...))
		leases := h.take(2)
		h.do(rota.VerbComplete, leases[0])
		if _, err := n.Cancel(all, []rota.JobID{ended[0].ID, ended[1].ID}); err != nil {
			t.Fatal(err)
		}
		w := rota.WorkflowSpec{ID: rota.WorkflowID(tenant + "-flow"), Tenant: tenant, Nodes: []rota.NodeSpec{
			{ID: "first", JobSpec: rota.NewJobSpec("other", nil)},
			{ID: "second", Parents: []string{"first"}, JobSpec: rota.NewJobSpec("other", nil)},
			{ID: "like@run", Parents: []string{"first"}, JobSpec: rota.NewJobSpec("other", nil)}}}
		w.Nodes[0].NotBefore = time.Now().Add(time.Hour)
		if _, err := n.SubmitWorkflow(all, w); err != nil {
			t.Fatal(err)
		}
	}
	daily := rota.NewScheduleSpec("umbrella-daily", rota.NewJobSpec("other", nil))
	daily.Every = 24 * time.Hour
	daily.Job.Tenant = "umbrella"
	if _, err := n.SetSchedule(all, daily); err != nil {
		t.Fatal(err)
	}
	if _, err := n.SuspendWorker(all, "umbrella-worker"); err != nil {
		t.Fatal(err)
	}
	waits := specs("acme-waits", 1)
	waits[0].Tenant = "acme"
	submitAll(t, n, waits)
	return n, called(within(t, ample), rota.TokenPrincipal(id))
}

// TestReads_twoTenants: a caller that may read one tenant in one queue sees nothing of another: no read call's answer
// names anything of it, and requesting it by name returns not found.
func TestReads_twoTenants(t *testing.T) {
	t.Parallel()
	n, acme := twoTenants(t)
	opt := peer.ReadOptions{}
	var answers []any
	keep := func(a any, _ rota.ReadAt, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%v", err)
		}
		answers = append(answers, a)
	}
	unknown := func(err error) {
		t.Helper()
		if rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("got %v, want NOT_FOUND", err)
			return
		}
		answers = append(answers, strings.ReplaceAll(err.Error(), `"umbrella`, "")) // the requested name
	}
	var ids []rota.JobID
	for cursor := ""; ; {
		page, _, err := n.Jobs(acme, rota.JobFilter{Limit: 1, Cursor: cursor}, opt)
		keep(page, rota.ReadAt{}, err)
		for i := range page.Jobs {
			ids = append(ids, page.Jobs[i].ID)
			if page.Jobs[i].Payload != nil {
				t.Error("a payload is read without the right to data")
			}
		}
		if cursor = page.NextCursor; cursor == "" || err != nil {
			break
		}
	}
	if len(ids) != 9 || !slices.Contains(ids, "acme-flow/second") {
		t.Errorf("%d jobs are listed: %v", len(ids), ids)
	}
	everything, _, err := n.Jobs(within(t, ample), rota.JobFilter{Limit: 100}, opt)
	if err != nil || len(everything.Jobs) != 17 {
		t.Errorf("%d jobs exist, %v", len(everything.Jobs), err)
	}
	for i := range everything.Jobs {
		id := everything.Jobs[i].ID
		job, at, err := n.Job(acme, id, opt)
		x, _, why := n.Why(acme, id, rota.WhyQuery{Others: true}, opt)
		if everything.Jobs[i].Tenant == "acme" {
			keep(job, at, err)
			x.Decision, x.Decisions = nil, nil // it includes the worker that has, or had, a job
			keep(x, at, why)
			continue
		}
		unknown(err)
		unknown(why)
		unknown(n.AwaitJobs(acme, []rota.JobID{id}, func(rota.Job) error { return nil }))
		_, err = n.ReportProof(acme, rota.ProofReport{Job: id, Reason: "wrong"})
		unknown(err)
		own := specs("x", 1)
		own[0].ID, own[0].Tenant = id, "acme"
		if out, err := n.Submit(acme, own); err != nil || out[0].Existed ||
			rota.KindOf(out[0].Err) != rota.KindConflict && !strings.Contains(string(id), "/") {
			t.Errorf("job %s of another tenant is submitted: %+v, %v", id, out, err)
		}
	}
	flows, at, err := n.Workflows(acme, rota.WorkflowFilter{Limit: 1}, opt)
	keep(flows, at, err)
	flow, at, err := n.Workflow(acme, "acme-flow", true, opt)
	keep(flow, at, err)
	for _, nodes := range []bool{true, false} {
		_, _, err = n.Workflow(acme, "umbrella-flow", nodes, opt)
		unknown(err)
	}
	_, err = n.AwaitWorkflow(acme, "umbrella-flow")
	unknown(err)
	for _, same := range []struct {
		theirs, nobodys string
		ask             func(id string) error
	}{
		{"umbrella-flow/second", "umbrella-none/second", func(id string) error {
			return n.ParentOutputs(acme, rota.JobID(id), func(rota.ParentOutput) error { return nil })
		}},
		{"umbrella-daily", "umbrella-none", func(id string) error {
			_, err := n.PauseSchedule(acme, rota.ScheduleName(id), "mine")
			return err
		}},
	} {
		err, none := same.ask(same.theirs), same.ask(same.nobodys)
		unknown(err)
		if err == nil || none == nil || strings.ReplaceAll(err.Error(), same.theirs,
			"ID") != strings.ReplaceAll(none.Error(), same.nobodys, "ID") {
			t.Errorf("of another tenant's object it returns %v, of a missing one %v", err, none)
		}
	}
	queues, at, err := n.Queues(acme, opt)
	keep(queues, at, err)
	queue, at, err := n.Queue(acme, "default", opt)
	keep(queue, at, err)
	if len(queues) != 1 || queue.Pending != 0 || queue.SubmittedTotal != 0 || queue.Policy.QueueCap == 0 {
		t.Errorf("%+v", queue)
	}
	_, _, err = n.Queue(acme, "umbrella-queue", opt)
	unknown(err)
	tenants, at, err := n.Tenants(acme, opt)
	keep(tenants, at, err)
	_, _, err = n.Tenant(acme, "umbrella", opt)
	unknown(err)
	keeper := &fsmpb.SetRole{Name: "keeper", Grants: []*fsmpb.Grant{{Right: uint32(rota.RightWorkers), Tenant: "*",
		Queue: "default"}}}
	if _, _, err := n.proposer.proposeOne(called(within(t, ample), rota.Local),
		&fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: keeper}}); err != nil {
		t.Fatal(err)
	}
	worker, err := n.ResumeWorker(called(within(t, ample), rota.CertPrincipal("keeper", "ann")), "umbrella-worker")
	keep(len(worker.Leases)+int(worker.Open), rota.ReadAt{}, err)
	if worker.Status != rota.WorkerActive || worker.Open != 0 || worker.Slots != 0 || worker.Leases != nil {
		t.Errorf("a caller that may stop a worker, and see none, gets %+v", worker)
	}
	events := 0
	err = n.Events(acme, rota.EventFilter{}, func(b peer.EventBatch) error {
		events += len(b.Events)
		for _, e := range b.Events {
			e.Worker = "" // it includes the worker that has a job
			e.Payload = strings.ReplaceAll(e.Payload, "umbrella-worker", "")
			answers = append(answers, e)
		}
		return nil
	})
	if err != nil || events < 8 {
		t.Errorf("%d events, %v", events, err)
	}
	for _, a := range answers {
		text, err := json.Marshal(a)
		switch a.(type) {
		case rota.Job, rota.JobPage: // as above
			text = []byte(strings.ReplaceAll(string(text), "umbrella-worker", ""))
		}
		if err != nil || strings.Contains(string(text), "umbrella") {
			t.Errorf("an answer to acme's reader is %s, %v", text, err)
		}
	}
}

// TestWaits_areJudgedAnew: a caller that loses the right to read a job while it waits for its end does not receive it.
func TestWaits_areJudgedAnew(t *testing.T) {
	t.Parallel()
	n, acme := twoTenants(t)
	waits := make(chan error, 2)
	go func() {
		waits <- n.AwaitJobs(acme, []rota.JobID{"acme-waits-00000"},
			func(j rota.Job) error { return errors.New("job " + string(j.ID) + " was reported") })
	}()
	go func() {
		_, err := n.AwaitWorkflow(acme, "acme-flow")
		waits <- err
	}()
	(&bench{t: t}).eventually("both wait", func() bool {
		h := n.replica.Hub
		h.Mu.Lock()
		defer h.Mu.Unlock()
		return len(h.Jobs) == 1 && len(h.Ends) == 1
	})
	all := called(within(t, ample), rota.Local)
	if _, err := n.SetRole(all, rota.Role{Name: "acmes", Grants: []rota.Grant{{Right: rota.RightRead, Tenant: "acme",
		Queue: "other"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Cancel(within(t, ample), []rota.JobID{"acme-waits-00000"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.CancelWorkflow(within(t, ample), "acme-flow"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-waits; rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("got %v, want NOT_FOUND", err)
		}
	}
}

// TestReads_honorMinIndex calls all reads that take an index, and makes each wait for it: an older state is not an
// answer, even if the job is unknown in it.
func TestReads_honorMinIndex(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("j", 1))
	opt := reflect.TypeFor[peer.ReadOptions]()
	walked := 0
	for _, c := range []context.Context{context.Background(), called(context.Background(), rota.Local)} {
		of := reflect.ValueOf(n)
		for i := range of.NumMethod() {
			method, name := of.Method(i), of.Type().Method(i).Name
			kind := method.Type()
			last := kind.NumIn() - 1
			if last < 1 || kind.In(last) != opt {
				continue
			}
			ctx, cancel := context.WithTimeout(c, 50*time.Millisecond)
			args := []reflect.Value{reflect.ValueOf(ctx)}
			for at := 1; at < last; at++ {
				arg := reflect.New(kind.In(at)).Elem()
				if arg.Kind() == reflect.String {
					arg.SetString("j-00000")
				}
				args = append(args, arg)
			}
			results := method.Call(append(args, reflect.ValueOf(peer.ReadOptions{MinIndex: 900_000})))
			cancel()
			err, _ := results[len(results)-1].Interface().(error)
			if k := rota.KindOf(err); k != rota.KindTimeout && k != rota.KindUnavailable {
				t.Errorf("%s answers from a state older than requested: %v", name, err)
			}
			walked++
		}
	}
	if walked < 40 {
		t.Errorf("%d reads were walked: the list is not complete", walked)
	}
}
