package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// poller is a worker over plain HTTP, without a library.
type poller struct {
	t          testing.TB
	id, secret string
}

// acquired holds the fields that these tests read of the answers.
type acquired struct {
	Status any // the worker's, or the number of a problem
	Leases []struct {
		Lease, Token string
		ValidMs      int64 `json:"valid_ms"`
		Renewals     int32
		Job          struct{ ID, Payload string }
	}
	Revoked []struct{ Lease, Token, Job string }
	Ended   []string
	// of a problem, and of an outcome.
	Kind, Field, Detail, State string
}

// call makes a call at a node; status 0 means that no answer came in time.
func (p *poller) call(n *node, path, body string, most time.Duration) (status int, got acquired) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.API+"/v1/workers/"+p.id+path,
		strings.NewReader(body))
	check(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Rota-Worker-Secret", p.secret)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, got
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, got
	}
	if len(text) > 0 {
		check(p.t, json.Unmarshal(text, &got))
	}
	return answer.StatusCode, got
}

// want is call with an expected status.
func (p *poller) want(n *node, path, body string, status int) acquired {
	p.t.Helper()
	code, got := p.call(n, path, body, 30*time.Second)
	if code != status {
		p.t.Fatalf("%s %s: %d %+v", path, body, code, got)
	}
	return got
}

func asking(queue rota.QueueName, slots, most, wait int, holding ...string) string {
	held, _ := json.Marshal(append([]string{}, holding...)) // texts only
	return fmt.Sprintf(`{"worker":{"queues":[%q],"slots":%d},"max":%d,"wait_ms":%d,"holding":%s}`, queue, slots, most,
		wait, held)
}

// TestCurlWorker has the worker of examples/curl-worker, bash and curl, do jobs, a thousand or fewer, while nodes are
// killed one after another: none is lost, and none wastes its ack timeout.
func TestCurlWorker(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "curl", "jq")
	const workers = 4
	jobs := 150
	if whole() {
		jobs = 1000
	}
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "curl", "--preset", "standard").want(t, 0)
	cl := c.dial(t)
	var specs []rota.JobSpec
	for i := range jobs {
		spec := rota.NewJobSpec("shout", []byte(fmt.Sprintf("job é %d", i)))
		spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("curl-%04d", i)), "curl"
		specs = append(specs, spec)
	}
	_, err := cl.Submit(context.Background(), specs...)
	check(t, err)
	var running []*rig.Process
	for i := range workers {
		cmd := exec.Command("../../examples/curl-worker/worker.sh", "curl", "tr", "a-z", "A-Z")
		cmd.Env = rig.Bare("ROTA_URLS=http://"+strings.Join(c.addrs(), " http://"), fmt.Sprintf("WORKER_ID=sh%d", i),
			"MAX=5")
		started, err := rig.Start(fmt.Sprintf("sh%d", i), cmd, "")
		check(t, err)
		running = append(running, watched(t, started, []string{"a shell worker"}).Process)
	}
	done := func() int {
		return int(decode[rota.JobCount](t, c.rota(t, "job", "list", "--filter", "queue=curl state=COMPLETED",
			"--count", "-o", "json").want(t, 0)).Count)
	}
	begun, kills := time.Now(), 0
	for before := 0; before < jobs; kills++ {
		n := c.all[kills%len(c.all)]
		if kills%2 == 1 {
			n = c.leader(t)
		}
		n.Kill()
		eventually(t, time.Minute, "jobs are done while a node is gone", func() error {
			now := done()
			if now < min(before+20, jobs) {
				return fmt.Errorf("%d are, %d were as %s was killed", now, before, n.ID)
			}
			before = now
			return nil
		})
		n.start(t)
		c.awaitReady()
	}
	t.Logf("%d jobs by %d shell workers in %s, %d nodes killed on the way", jobs, workers,
		time.Since(begun).Round(time.Second), kills)
	for _, w := range running {
		if err := w.Stop(30 * time.Second); err != nil {
			t.Error(err)
		}
	}
	lost := 0
	for _, spec := range specs {
		job, err := cl.Job(context.Background(), spec.ID)
		check(t, err)
		if want := fmt.Sprintf("JOB é %s", strings.TrimPrefix(string(spec.Payload),
			"job é ")); job.State != rota.JobCompleted || string(job.Output) != want {
			t.Errorf("job %s is %s with output %q", spec.ID, job.State, job.Output)
		}
		for _, a := range job.Attempts {
			if a.End == rota.ReasonAckTimeout {
				t.Errorf("job %s: an attempt at %s ended with %s", spec.ID, a.Worker, a.End)
			}
			if a.End != rota.ReasonDone {
				lost++
			}
		}
	}
	t.Logf("%d attempts did not complete", lost)
	c.verified(t, 3)
}

// TestPolling: the promises to a worker over plain HTTP, each call at another node.
func TestPolling(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "polled", "--preset", "standard", "--set", "t_lease=8s").want(t, 0)
	cl := c.dial(t)
	submit := func(id string) {
		spec := rota.NewJobSpec("x", []byte("payload of "+id))
		spec.ID, spec.Queue = rota.JobID(id), "polled"
		_, err := cl.Submit(context.Background(), spec)
		check(t, err)
	}
	a, b, d := c.all[0], c.all[1], c.all[2]
	p := &poller{t: t, id: "hand", secret: "a secret of the hand"}
	claim := func(token, job, more string) string { return fmt.Sprintf(`{"token":%q,"job":%q%s}`, token, job, more) }
	offered := func() int32 {
		return decode[rota.Worker](t, c.rota(t, "worker", "show", "hand", "-o", "json").want(t, 0)).Offered
	}

	// A poll that gets nothing leaves no room: later jobs wait.
	if got := p.want(a, "/acquire", asking("polled", 3, 2, 300), 200); len(got.Leases) != 0 || got.Status != "ACTIVE" ||
		offered() != 0 {
		t.Fatalf("%+v, offered %d", got, offered())
	}
	submit("one")
	if x := c.why(t, "one"); len(x.Reasons) != 1 || x.Reasons[0].Reason != "NO_SLOT_OFFERED" {
		t.Fatalf("why: %+v", x)
	}

	// A lost answer is repaired by a repeated request, at another node.
	first := p.want(b, "/acquire", asking("polled", 3, 1, 5000), 200)
	if len(first.Leases) != 1 || first.Leases[0].Job.ID != "one" || first.Leases[0].Job.Payload != "payload of one" ||
		first.Leases[0].ValidMs < 3000 ||
		first.Leases[0].ValidMs > 7000 {
		t.Fatalf("%+v", first)
	}
	again := p.want(d, "/acquire", asking("polled", 3, 1, 5000), 200)
	if len(again.Leases) != 1 || again.Leases[0].Lease != first.Leases[0].Lease ||
		again.Leases[0].Token != first.Leases[0].Token {
		t.Fatalf("repeated: %+v, at first %+v", again, first)
	}
	one := first.Leases[0]

	// It beats, and the lease is renewed beyond its first deadline.
	over := time.Now().Add(10 * time.Second)
	eventually(t, 30*time.Second, "the lease outlives its first 8 s", func() error {
		got := p.want(b, "/beat", fmt.Sprintf(`{"holding":[%q]}`, one.Lease), 200)
		if len(got.Leases) != 1 || got.Leases[0].ValidMs < 2000 {
			t.Fatalf("beat: %+v", got)
		}
		if left := time.Until(over); left > 0 {
			return fmt.Errorf("still valid for %s, renewed %d times", left, got.Leases[0].Renewals)
		}
		return nil
	})

	// A caller who does not know the secret, or has another's token, changes nothing.
	thief := &poller{t: t, id: "hand", secret: "a secret of a thief"}
	thief.want(a, "/beat", `{"holding":[]}`, 403)
	thief.want(a, "/acquire", asking("polled", 3, 1, 100), 409)
	thief.want(a, "/leases/"+one.Lease+"/complete", claim(one.Token, "one", ""), 403)
	thief.want(b, "/unregister", "", 403)
	if got := p.want(b, "/leases/"+one.Lease+"/complete", claim("1.99", "one", ""), 409); got.Kind != "STALE" ||
		got.Field != "token" {
		t.Fatalf("another token: %+v", got)
	}
	p.want(d, "/leases/"+one.Lease+"/progress", claim(one.Token, "one", `,"progress":50,"note":"half"`), 200)
	p.want(d, "/leases/"+one.Lease+"/progress", claim(one.Token, "one", `,"progress":90,"note":"nearly","final":true`),
		200) // within the second
	p.want(a, "/leases/"+one.Lease+"/complete", claim(one.Token, "one", `,"output_digest":"00ff"`), 400)
	elsewhere := strings.Repeat("5a", 32)
	done := claim(one.Token, "one", `,"output":"done","output_digest":"`+elsewhere+`"`)
	p.want(a, "/leases/"+one.Lease+"/complete", done, 200)
	p.want(b, "/leases/"+one.Lease+"/complete", done, 200) // its answer may have been lost
	if got := p.want(b, "/acquire", asking("polled", 3, 1, 100, one.Lease), 200); len(got.Ended) != 1 ||
		len(got.Leases) != 0 {
		t.Fatalf("%+v", got)
	}
	if job := c.job(t, "one"); job.State != rota.JobCompleted || string(job.Output) != "done" || job.Attempt != 0 ||
		job.Progress != 90 || job.ProgressNote != "nearly" || job.OutputDigest.String() != elsewhere {
		t.Fatalf("%+v", job)
	}

	// A poll whose caller goes away gives back the jobs that arrived for it, and offers no further room.
	if status, got := p.call(a, "/acquire", asking("polled", 3, 1, 8000), 700*time.Millisecond); status != 0 {
		t.Fatalf("%d %+v", status, got)
	}
	eventually(t, 10*time.Second, "the poll is withdrawn", func() error {
		if n := offered(); n != 0 {
			return fmt.Errorf("it offers %d", n)
		}
		return nil
	})

	// A worker that neither polls nor beats loses its lease at the deadline, and its token is stale.
	submit("two")
	lost := p.want(d, "/acquire", asking("polled", 3, 3, 5000), 200).Leases[0]
	c.awaitAttempt(t, cl, "two", 1)
	if job := c.job(
		t, "two"); job.Attempts[0].End != rota.ReasonLeaseExpired { // of 8 s: it is not silent for long enough to be lost
		t.Fatalf("%+v", job)
	}
	if got := p.want(a, "/leases/"+lost.Lease+"/complete", claim(lost.Token, "two", ""), 409); got.Kind != "STALE" {
		t.Fatalf("a stale token: %+v", got)
	}
	second := p.want(b, "/acquire", asking("polled", 3, 3, 8000), 200)
	if len(second.Leases) != 1 || second.Leases[0].Job.ID != "two" {
		t.Fatalf("%+v", second)
	}
	two := second.Leases[0]
	if got := p.want(a, "/leases/"+two.Lease+"/complete", claim(lost.Token, "two", ""), 409); got.Kind != "STALE" ||
		got.Field != "token" {
		t.Fatalf("a stale token on the new lease: %+v", got)
	}
	p.want(a, "/leases/"+two.Lease+"/fail", claim(two.Token, "two", `,"error":"no","no_retry":true`), 200)
	c.awaitState(t, cl, "two", 10*time.Second, rota.JobDead)
	p.want(a, "/unregister", "", 200)
	if got := p.want(b, "/beat", `{"holding":[]}`, 409); got.Kind != "STALE" {
		t.Fatalf("after it left: %+v", got)
	}
	for _, id := range []string{"one", "two"} {
		for _, at := range c.job(t, id).Attempts {
			if at.End == rota.ReasonAckTimeout {
				t.Errorf("job %s: %+v", id, at)
			}
		}
	}
	c.verified(t, 3)
}

// awaitAttempt waits until n attempts of a job have ended.
func (c *nodes) awaitAttempt(t testing.TB, cl *client.Client, id rota.JobID, n int) {
	t.Helper()
	eventually(t, 90*time.Second, string(id)+" loses its attempt", func() error {
		job, err := cl.Job(context.Background(), id)
		if err != nil {
			return err
		}
		if len(job.Attempts) < n {
			var b bytes.Buffer
			_ = json.NewEncoder(&b).Encode(job)
			return fmt.Errorf("%s", b.String())
		}
		return nil
	})
}
