package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// The parts of a job's life, as event kinds. An attempt lost to a killed node ends with a lease event, and the job is
// queued again; each part must be complete.
const (
	lifeLost = `(?:jobAssigned (?:leaseAcked jobRunning (?:leaseRenewed )*)?` +
		`(?:leaseCancelled|leaseExpired|leaseDeclined) (?:jobRetryScheduled )?jobEnqueued )*`
	lifeBegin = `jobEnqueued ` + lifeLost
	lifeRuns  = `jobAssigned leaseAcked jobRunning `
	// A handler that fails at once fails a lease that was not acknowledged.
	lifeTaken = `jobAssigned (?:leaseAcked jobRunning )?`
)

// lives maps each kind of deed to the events it must produce, in this order, each once.
var lives = map[string]string{
	"completes": lifeBegin + lifeRuns + `(?:leaseRenewed )*jobCompleted `,
	"fails_once": lifeBegin + lifeTaken + `leaseCancelled jobRetryScheduled jobEnqueued ` + lifeLost +
		lifeRuns + `jobCompleted `,
	"declined_once": lifeBegin + lifeTaken + `leaseDeclined (?:jobRetryScheduled )?jobEnqueued ` + lifeLost + lifeRuns +
		`jobCompleted `,
	"dies":       lifeBegin + lifeTaken + `jobDead `,
	"is_retried": lifeBegin + lifeTaken + `jobDead ` + lifeBegin + lifeRuns + `jobCompleted `,
	"tells": lifeBegin +
		`jobAssigned (?:leaseAcked jobRunning jobProgress|jobProgress leaseAcked jobRunning) jobCompleted `,
	"outlives_a_lease":  lifeBegin + lifeRuns + `(?:leaseRenewed )+jobCompleted `,
	"expires":           `jobEnqueued jobExpired `,
	"cancelled_waiting": `jobEnqueued jobCancelled `,
	"cancelled_running": lifeBegin + lifeRuns +
		`(?:leaseRenewed )*(?:leaseCancelled jobCancelled |jobCancelled (?:leaseRenewed )*leaseCancelled )`, // from rules version 2 on the lease ends last
	"rises":      `jobEnqueued (?:jobPromoted )+jobCancelled `,
	"is_delayed": `jobDelayed ` + lifeBegin + lifeRuns + `jobCompleted `,
	"may_be":     `(?:jobEnqueued .*)?`,
}

// deeds records the requests that users made of a cluster while its nodes were killed, and so the events that must
// exist.
type deeds struct {
	t  testing.TB
	c  *nodes
	cl *client.Client

	jobs map[rota.JobID]string // the deed, by job
	// singles are the required events about subjects other than jobs: the expected kinds of each subject, in order.
	singles map[string][]string

	mu sync.Mutex
	// runs are the leases under which handlers ran, by job.
	runs map[rota.JobID][]rota.LeaseID
}

// startDeeds starts two workers on a queue for deeds.
func startDeeds(t testing.TB, c *nodes) *deeds {
	d := &deeds{t: t, c: c, cl: c.dial(t), jobs: map[rota.JobID]string{}, singles: map[string][]string{},
		runs: map[rota.JobID][]rota.LeaseID{}}
	c.rota(t, "queue", "set", "deeds", "--preset", "standard", "--set", "min_health=0", "--set", "backoff_base=100ms",
		"--set", "lease_ms=8s").want(t, 0)
	c.rota(t, "queue", "set", "stairs", "--preset", "dfps", "--set", "aging_threshold=1s").want(t, 0)
	d.singles["queue deeds"], d.singles["queue stairs"] = []string{"queueChanged"}, []string{"queueChanged"}
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() { stop(); working.Wait() })
	for i := range 3 {
		w, err := client.NewWorker(c.dial(t), rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("deeds-w%d", i)),
			Queues: []rota.QueueName{"deeds", "stairs"}, Slots: 8})
		check(t, err)
		w.Handle("", d.handle)
		working.Go(func() { _ = w.Run(ctx) })
	}
	return d
}

func (d *deeds) handle(ctx context.Context, job *client.Job) (client.Result, error) {
	d.mu.Lock()
	d.runs[job.ID()] = append(d.runs[job.ID()], job.Lease())
	first := len(d.runs[job.ID()]) == 1
	d.mu.Unlock()
	switch deed := string(job.Type()); {
	case deed == "fails_once" && job.Attempt() == 0:
		return client.Result{}, errors.New("the first attempt fails")
	case deed == "declined_once" && first:
		return client.Result{}, client.Decline(nil)
	case deed == "dies", deed == "is_retried" && first:
		return client.Result{}, client.NoRetry(nil)
	case deed == "tells":
		job.Progress(100, "told")
		select { // reports go out once a second
		case <-ctx.Done():
		case <-time.After(1500 * time.Millisecond):
		}
	case deed == "outlives_a_lease":
		select {
		case <-ctx.Done():
		case <-time.After(9 * time.Second):
		}
	case deed == "cancelled_running":
		<-ctx.Done()
	}
	return client.Result{}, context.Cause(ctx)
}

// submit submits one job for a deed, and retries errors that a dying node returns.
func (d *deeds) submit(deed string, spec rota.JobSpec) rota.JobID {
	d.t.Helper()
	if spec.ID == "" {
		spec.ID = rota.JobID(fmt.Sprintf("%s-%d", deed, len(d.jobs)))
	}
	d.jobs[spec.ID] = deed
	d.until(fmt.Sprintf("%s is submitted", spec.ID), func(ctx context.Context) error {
		_, err := d.cl.Submit(ctx, spec)
		return err
	})
	return spec.ID
}

// until retries a call until it succeeds.
func (d *deeds) until(what string, call func(ctx context.Context) error) {
	d.t.Helper()
	eventually(d.t, 60*time.Second, what, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return call(ctx)
	})
}

func (d *deeds) becomes(id rota.JobID, state rota.JobState) {
	d.t.Helper()
	d.c.awaitState(d.t, d.cl, string(id), 90*time.Second, state)
}

// do performs one of each deed that a user and a handler can do to a job.
func (d *deeds) do() {
	d.t.Helper()
	of := func(deed string) rota.JobSpec {
		spec := rota.NewJobSpec(rota.JobType(deed), []byte("x"))
		spec.Queue = "deeds"
		return spec
	}
	for _, deed := range []string{"completes", "fails_once", "declined_once", "dies", "tells"} {
		d.submit(deed, of(deed))
	}
	spec := of("expires")
	spec.Requires, spec.TTL = []string{"nobody-has-it"}, time.Second
	d.submit("expires", spec)
	spec = of("cancelled_waiting")
	spec.Requires = []string{"nobody-has-it"}
	waiting := d.submit("cancelled_waiting", spec)
	spec = of("is_delayed")
	spec.Delay = 500 * time.Millisecond
	d.submit("is_delayed", spec)
	running := d.submit("cancelled_running", of("cancelled_running"))
	dead := d.submit("is_retried", of("is_retried"))
	d.becomes(running, rota.JobRunning)
	d.becomes(dead, rota.JobDead)
	d.ask("cancel", d.cl.Cancel, waiting, running)
	d.ask("retry", d.cl.Retry, dead)
}

func (d *deeds) ask(what string, call func(context.Context, ...rota.JobID) ([]rota.JobOutcome, error),
	ids ...rota.JobID) {
	d.t.Helper()
	d.until(fmt.Sprintf("%s %v", what, ids), func(ctx context.Context) error {
		outcomes, err := call(ctx, ids...)
		for _, o := range outcomes {
			if o.Err != nil {
				return o.Err
			}
		}
		return err
	})
}

// doOnce performs the deeds that a test needs only once, while all nodes live.
func (d *deeds) doOnce() {
	d.t.Helper()
	spec := rota.NewJobSpec("outlives_a_lease", nil)
	spec.Queue = "deeds"
	d.submit("outlives_a_lease", spec)
	spec = rota.NewJobSpec("rises", nil)
	spec.Queue, spec.Priority, spec.Requires = "stairs", 9, []string{"nobody-has-it"}
	rises := d.submit("rises", spec)

	d.told("tenant acme", []string{"tenantChanged"}, "tenant", "set", "acme", "--max-concurrent", "7")
	d.told("mode", []string{"modeChanged", "modeChanged"}, "mode", "set", "DEGRADED", "--reason", "a test")
	d.told("mode", nil, "mode", "set", "NORMAL", "--reason", "a test")
	d.told("worker deeds-w2", []string{"providerRegistered", "providerStatusChanged SUSPENDED",
		"providerStatusChanged ACTIVE", "providerStatusChanged DRAINING"}, "worker", "suspend", "deeds-w2")
	d.told("worker deeds-w2", nil, "worker", "resume", "deeds-w2")
	d.told("worker deeds-w2", nil, "worker", "drain", "deeds-w2")
	d.singles["worker deeds-w0"], d.singles["worker deeds-w1"] = []string{"providerRegistered"}, []string{"providerRegistered"}

	flow := rota.WorkflowSpec{ID: "flow", Queue: "deeds",
		Nodes: []rota.NodeSpec{rota.NewNodeSpec("a", "completes", nil), rota.NewNodeSpec("b", "completes", nil, "a")}}
	d.jobs[rota.NodeJobID("flow", "a")], d.jobs[rota.NodeJobID("flow", "b")] = "completes", "completes"
	d.until("the workflow is submitted", func(ctx context.Context) error {
		_, err := d.cl.SubmitWorkflow(ctx, flow)
		return err
	})
	d.singles["workflow flow"] = []string{"workflowStarted", "workflowFinished"}

	eventually(d.t, 60*time.Second, "the job rises", func() error {
		job, err := d.cl.Job(context.Background(), rises)
		if err == nil && job.Tier > 3 {
			err = fmt.Errorf("it is in tier %d", job.Tier)
		}
		return err
	})
	d.ask("cancel", d.cl.Cancel, rises)
}

// told runs a command that must produce events about a subject.
func (d *deeds) told(subject string, kinds []string, command ...string) {
	d.t.Helper()
	d.c.rota(d.t, command...).want(d.t, 0)
	d.singles[subject] = append(d.singles[subject], kinds...)
}

// settle waits until all jobs have ended.
func (d *deeds) settle() {
	d.t.Helper()
	ends := map[string]rota.JobState{"dies": rota.JobDead, "expires": rota.JobExpired,
		"cancelled_waiting": rota.JobCancelled, "cancelled_running": rota.JobCancelled, "rises": rota.JobCancelled}
	for _, id := range slices.Sorted(maps.Keys(d.jobs)) {
		state, ok := ends[d.jobs[id]]
		if !ok {
			state = rota.JobCompleted
		}
		d.becomes(id, state)
	}
}

// asDeeds adds the jobs of a load, which all complete. A job whose submission was cut off by the end of the test may or
// may not exist.
func (l *load) asDeeds(d *deeds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.asked {
		if l.Has(id) {
			d.jobs[id] = "completes"
		} else {
			d.jobs[id] = "may_be"
		}
	}
}

// judge compares the events that a node returns with the deeds.
func (d *deeds) judge(t *testing.T, told string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	faults := unreported(told, d.jobs, d.singles, d.runs)
	for _, f := range faults[:min(20, len(faults))] {
		t.Error(clip(f))
	}
	if n := len(faults); n > 20 {
		t.Errorf("and %d more faults", n-20)
	}
}

// toldEvent holds the fields of an event that the comparison uses.
type toldEvent struct {
	ID     rota.EventID `json:"event_id"`
	Kind   string       `json:"kind"`
	Run    string       `json:"run_id"`
	Job    rota.JobID   `json:"job"`
	Queue  string       `json:"queue"`
	Tenant string       `json:"tenant"`
	Worker string       `json:"worker"`
	Lease  rota.LeaseID `json:"lease_id"`
	Status string       `json:"status"`
}

// subject returns the subject of an event that is not about a job; it is empty for events that no user caused.
func (e *toldEvent) subject() (subject, told string) {
	switch e.Kind {
	case "queueChanged":
		return "queue " + e.Queue, e.Kind
	case "tenantChanged":
		return "tenant " + e.Tenant, e.Kind
	case "modeChanged":
		return "mode", e.Kind
	case "providerRegistered":
		return "worker " + e.Worker, e.Kind
	case "providerStatusChanged":
		return "worker " + e.Worker, e.Kind + " " + e.Status
	case "workflowStarted", "workflowFinished":
		return "workflow " + e.Run, e.Kind
	}
	return "", ""
}

// unreported compares a node's events with the deeds: every deed must appear in order and once, and no event may lack a
// deed.
func unreported(text string, jobs map[rota.JobID]string, singles map[string][]string,
	runs map[rota.JobID][]rota.LeaseID) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	told, about := map[rota.JobID]*strings.Builder{}, map[string][]string{}
	leases := map[rota.LeaseID]map[string]int{}
	var last rota.EventID
	for line := range strings.Lines(text) {
		var e toldEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			say("event %s: %v", line, err)
			return faults
		}
		if e.ID.Compare(last) <= 0 {
			say("event %s comes after %s", e.ID, last)
		}
		last = e.ID
		if subject, what := e.subject(); subject != "" && !transient(what) {
			about[subject] = append(about[subject], what)
		}
		if e.Job == "" || e.Kind == "assignmentDropped" || e.Kind == "workerHeld" || e.Kind == "leaseRevoked" {
			continue // not a step of a job's life
		}
		if told[e.Job] == nil {
			told[e.Job] = &strings.Builder{}
		}
		told[e.Job].WriteString(e.Kind + " ")
		if leases[e.Lease] == nil {
			leases[e.Lease] = map[string]int{}
		}
		leases[e.Lease][e.Kind]++
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		life := ""
		if told[id] != nil {
			life = told[id].String()
		}
		if !regexp.MustCompile(`^` + lives[jobs[id]] + `$`).MatchString(life) {
			say("%s: the events are %q, which do not match a job that %s", id, life, jobs[id])
		}
		for _, lease := range runs[id] {
			if n := leases[lease]; n["jobAssigned"] != 1 {
				say("%s: a handler ran under lease %s, with %d assignments in the events", id, lease, n["jobAssigned"])
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		if jobs[id] == "" {
			say("%s: the events are %q, of a job that was never submitted", id, told[id])
		}
	}
	for _, subject := range slices.Sorted(maps.Keys(singles)) {
		if got := about[subject]; !slices.Equal(got, singles[subject]) {
			say("%s: got events %v, want %v", subject, got, singles[subject])
		}
	}
	return faults
}

// transient reports whether an event is a state that a worker passes through when the node of its stream is killed.
func transient(what string) bool { return strings.HasSuffix(what, " UNREACHABLE") }

// TestUntoldEventsBite: the comparison above detects each kind of event that is missing or duplicated.
func TestUntoldEventsBite(t *testing.T) {
	t.Parallel()
	script := []string{"queueChanged::q", "providerRegistered:::w", "jobEnqueued:a", "jobAssigned:a", "leaseAcked:a",
		"jobRunning:a",
		"leaseCancelled:a", "jobRetryScheduled:a", "jobEnqueued:a", "jobAssigned:a", "leaseAcked:a", "jobRunning:a",
		"jobCompleted:a",
		"jobEnqueued:b", "jobExpired:b", "jobEnqueued:c", "jobAssigned:c", "leaseAcked:c", "jobRunning:c",
		"jobProgress:c", "jobCompleted:c",
		"jobEnqueued:d", "jobAssigned:d", "leaseAcked:d", "jobRunning:d", "leaseDeclined:d", "jobEnqueued:d",
		"jobAssigned:d",
		"leaseAcked:d", "jobRunning:d", "jobCompleted:d", "jobEnqueued:e", "jobPromoted:e", "jobCancelled:e",
		"jobEnqueued:f", "jobAssigned:f", "leaseAcked:f", "jobRunning:f", "leaseRenewed:f", "jobCompleted:f",
		"modeChanged",
		"jobDelayed:g", "jobEnqueued:g", "jobAssigned:g", "leaseAcked:g", "jobRunning:g", "jobCompleted:g"}
	jobs := map[rota.JobID]string{"a": "fails_once", "b": "expires", "c": "tells", "d": "declined_once", "e": "rises",
		"f": "outlives_a_lease", "g": "is_delayed"}
	singles := map[string][]string{"queue q": {"queueChanged"}, "worker w": {"providerRegistered"},
		"mode": {"modeChanged"}}
	text := func(script []string) string {
		var b strings.Builder
		for i, s := range script {
			p := append(strings.Split(s, ":"), "", "", "")
			line, err := json.Marshal(toldEvent{ID: rota.EventID{Incarnation: 1, Index: rota.Index(i + 1)}, Kind: p[0],
				Job: rota.JobID(p[1]), Queue: p[2], Worker: p[3]})
			check(t, err)
			b.Write(append(line, '\n'))
		}
		return b.String()
	}
	if faults := unreported(text(script), jobs, singles, nil); len(faults) > 0 {
		t.Fatalf("a correct stream of events is reported as faulty: %v", faults)
	}
	for i, s := range script {
		if faults := unreported(text(slices.Delete(slices.Clone(script), i, i+1)), jobs, singles,
			nil); len(faults) == 0 {
			t.Errorf("%s, number %d, is left out, and this is not noticed", s, i)
		}
		if s == "jobPromoted:e" || s == "leaseRenewed:f" {
			continue // each may occur more than once
		}
		if faults := unreported(text(slices.Insert(slices.Clone(script), i, s)), jobs, singles, nil); len(faults) == 0 {
			t.Errorf("%s, number %d, is reported twice, and this is not noticed", s, i)
		}
	}
	if faults := unreported(text(append(script, "jobEnqueued:z", "jobCancelled:z")), jobs, singles,
		nil); len(faults) == 0 {
		t.Error("a job without a submission is not noticed")
	}
	if faults := unreported(text(script), jobs, singles, map[rota.JobID][]rota.LeaseID{"a": {{7}}}); len(faults) == 0 {
		t.Error("a handler that ran under a lease without events is not noticed")
	}
}
