package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// measured holds the fields that `bench` promises.
type measured struct {
	Jobs        *int     `json:"jobs"`
	Seconds     *float64 `json:"seconds"`
	JobsPerS    *float64 `json:"jobs_per_s"`
	E2EP50Ms    *float64 `json:"e2e_p50_ms"`
	E2EP99Ms    *float64 `json:"e2e_p99_ms"`
	SubmitP50Ms *float64 `json:"submit_p50_ms"`
	SubmitP99Ms *float64 `json:"submit_p99_ms"`
	Lost        *int64   `json:"lost"`
	Duplicated  *int64   `json:"duplicated"`
	Errors      *int64   `json:"errors"`
	ServersCPU  *float64 `json:"servers_cpu_us_per_job"`
	CPUUnknown  string   `json:"servers_cpu_unknown"`
	Waits       []struct {
		Class string `json:"class"`
		Jobs  int    `json:"jobs"`
	} `json:"waits"`
}

// judge checks the counts of a measurement.
func (m *measured) judge(t *testing.T, jobs int) {
	t.Helper()
	for name, there := range map[string]bool{"jobs": m.Jobs != nil, "seconds": m.Seconds != nil,
		"jobs_per_s": m.JobsPerS != nil,
		"e2e_p50_ms": m.E2EP50Ms != nil, "e2e_p99_ms": m.E2EP99Ms != nil, "submit_p50_ms": m.SubmitP50Ms != nil,
		"submit_p99_ms": m.SubmitP99Ms != nil, "lost": m.Lost != nil, "duplicated": m.Duplicated != nil,
		"errors": m.Errors != nil} {
		if !there {
			t.Fatalf("the measurement has no field %q", name)
		}
	}
	if *m.Jobs != jobs || *m.Lost != 0 || *m.Duplicated != 0 {
		t.Errorf("%d jobs, %d lost, %d done twice: want %d, 0 and 0", *m.Jobs, *m.Lost, *m.Duplicated, jobs)
	}
	if *m.Seconds <= 0 || *m.JobsPerS <= 0 || *m.E2EP50Ms <= 0 || *m.E2EP50Ms > *m.E2EP99Ms ||
		*m.SubmitP50Ms > *m.SubmitP99Ms {
		t.Errorf("the figures do not fit: %.3f s, %.1f/s, e2e %.1f and %.1f ms, submit %.1f and %.1f ms", *m.Seconds,
			*m.JobsPerS, *m.E2EP50Ms, *m.E2EP99Ms, *m.SubmitP50Ms, *m.SubmitP99Ms)
	}
}

// A measurement of jobs survives the leader's death, and then reports that its servers' resource use is unknown.
func TestBenchJobsWhileLeaderDies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := launch(t, "bench jobs", []string{c.env()}, "bench", "jobs", "--jobs", "2000", "--rate", "300", "--workers",
		"2", "--admin", c.all[0].Admin+","+c.all[1].Admin+","+c.all[2].Admin)
	flowing(t, c, "bench", 300)
	dies(t, c, p)
	m := finish(t, p, 120*time.Second)
	m.judge(t, 2000)
	if m.ServersCPU != nil || !strings.HasPrefix(m.CPUUnknown, "a server restarted") {
		t.Errorf("the servers used %v µs a job, not known is %q: one of them restarted", m.ServersCPU, m.CPUUnknown)
	}
	c.verified(t, 3)
}

// A job log is replayed through leaders' deaths: nothing lost, nothing duplicated.
func TestBenchTraceWhileLeadersDie(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3)
	const jobs = 400
	trace := writeFile(t, filepath.Join(t.TempDir(), "excerpt.swf"), excerpt(jobs))
	p := launch(t, "bench trace", []string{c.env()}, "bench", "trace", trace, "--speedup", "100", "--workers", "4")
	for i := range 3 {
		flowing(t, c, "trace", uint64(i+1)*jobs/10)
		dies(t, c, p)
	}
	m := finish(t, p, 180*time.Second)
	m.judge(t, jobs)
	total := 0
	for _, w := range m.Waits {
		total += w.Jobs
	}
	if total != jobs || len(m.Waits) < 3 {
		t.Errorf("waits of %d jobs in %d classes: %+v", total, len(m.Waits), m.Waits)
	}
	c.verified(t, 3)
}

// flowing waits until the given number of jobs of a queue are COMPLETED.
func flowing(t *testing.T, c *nodes, queue string, completed uint64) {
	t.Helper()
	eventually(t, 60*time.Second, "the measurement is in progress", func() error {
		r := c.rota(t, "queue", "show", queue, "-o", "json")
		if r.code != 0 {
			return errors.New(r.stderr)
		}
		if q := parse[rota.Queue](t, r); q.CompletedTotal < completed {
			return fmt.Errorf("%d jobs are completed", q.CompletedTotal)
		}
		return nil
	})
}

// dies kills the leader while a measurement runs and starts it again.
func dies(t *testing.T, c *nodes, p *process) {
	t.Helper()
	leader := c.leader(t)
	if !p.Running() {
		t.Error("the measurement ended before the leader was killed")
	}
	leader.Kill()
	c.leader(t)
	leader.start(t)
	leader.awaitReady(t)
}

// finish waits for a measurement's end and reads its JSON.
func finish(t *testing.T, p *process, most time.Duration) *measured {
	t.Helper()
	if code := p.end(t, most); code != 0 {
		t.Errorf("%s ended with exit code %d", p.Name, code)
	}
	m := &measured{}
	if err := json.Unmarshal([]byte(p.Stdout.String()), m); err != nil {
		t.Fatalf("%s printed no JSON: %v\n%s", p.Name, err, p.Stdout.String())
	}
	t.Logf("%s: %s", p.Name, strings.Join(strings.Fields(p.Stdout.String()), " "))
	return m
}

// excerpt is a job log in the Standard Workload Format: a job every 4 to 8 s, run
// times up to ten minutes, 1 to 96 processors of 128, seven users.
func excerpt(jobs int) string {
	var text strings.Builder
	text.WriteString("; Version: 2.2\n; MaxJobs: " + fmt.Sprint(jobs) + "\n; MaxProcs: 128\n; UnixStartTime: 0\n")
	at := 0
	for i := range jobs {
		at += 4 + i%5
		run := 5 + i*i%97
		if i%50 == 0 {
			run = 600
		}
		processors := []int{1, 1, 1, 2, 4, 8, 16, 32, 64, 96}[i*7%10]
		fmt.Fprintf(&text, "%d %d -1 %d %d -1 -1 %d %d -1 1 %d 1 1 %d 1 -1 -1\n", i+1, at, run, processors, processors,
			2*run, 1+i%7, i%4)
	}
	return text.String()
}
