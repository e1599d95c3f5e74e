package e2e

import (
	"bufio"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// exported is a line of `job export`.
type exported struct {
	ID     rota.JobID `json:"id"`
	State  string     `json:"state"`
	Submit int64      `json:"submit_ms"`
	Start  int64      `json:"start_ms"`
	Run    *int64     `json:"run_ms"`
}

func exports(t *testing.T, r *result) (lines []exported) {
	t.Helper()
	in := bufio.NewScanner(strings.NewReader(r.want(t, 0).stdout))
	for in.Scan() {
		var l exported
		check(t, json.Unmarshal(in.Bytes(), &l))
		if n := len(lines); n > 0 && l.Submit < lines[n-1].Submit || l.Run == nil || l.Start < l.Submit {
			t.Fatalf("line %d: %s", n+1, in.Text())
		}
		lines = append(lines, l)
	}
	return lines
}

// TestExportUnderLoad: while jobs come and go each node exports those that have ended, each once and with the times of
// the jobs; a token's holder exports the jobs of its tenant; and the file is simulated, with as many jobs.
func TestExportUnderLoad(t *testing.T) {
	t.Parallel()
	const jobs = 1500
	c := newCluster(t, 3)
	p := launch(t, "bench jobs", []string{c.env()}, "bench", "jobs", "--jobs", "1500", "--rate", "200", "--workers",
		"2", "--slots", "8", "--hold", "20ms", "--tenants", "2")
	flowing(t, c, "bench", jobs/10)
	for _, n := range c.all {
		lines, seen := exports(t, n.at(t, "job", "export", "--queue", "bench")), map[rota.JobID]bool{}
		for _, l := range lines {
			if seen[l.ID] || l.State != "COMPLETED" {
				t.Errorf("%s: %+v", n.ID, l)
			}
			seen[l.ID] = true
		}
		if len(lines) < jobs/10 {
			t.Errorf("%s exports %d jobs", n.ID, len(lines))
		}
	}
	if !p.Running() {
		t.Error("the load ended before the jobs were exported")
	}
	finish(t, p, 120*time.Second).judge(t, jobs)
	file := filepath.Join(t.TempDir(), "jobs.jsonl.gz")
	c.rota(t, "job", "export", "--to", file).want(t, 0)
	lines := exports(t, c.rota(t, "job", "export"))
	if len(lines) != jobs {
		t.Fatalf("%d jobs are exported", len(lines))
	}
	cl, until := c.dial(t), int64(0)
	for i, l := range lines {
		until = max(until, l.Submit+*l.Run)
		if i%50 > 0 {
			continue
		}
		j, err := cl.Job(t.Context(), l.ID)
		check(t, err)
		if a := j.Attempts[len(j.Attempts)-1]; *l.Run != int64(a.Ended.Clock-a.Started.Clock) ||
			l.Submit != int64(j.Enqueued.Date) {
			t.Errorf("%s is exported as %+v, and ran from %+v to %+v", l.ID, l, a.Started, a.Ended)
		}
	}
	c.rota(t, "auth", "role", "set", "one", "--grant", "read tenant=bench-1").want(t, 0)
	reader := c.tokenFile(t, "--role", "one")
	if own := exports(t, c.rota(t, append([]string{"job", "export"}, reader...)...)); len(own) != jobs/2 {
		t.Errorf("a token of one tenant exports %d jobs", len(own))
	}
	simulated := decode[struct {
		Policies []struct {
			Jobs     int     `json:"jobs"`
			WaitMax  float64 `json:"wait_max_s"`
			Makespan float64 `json:"makespan_s"`
		} `json:"policies"`
	}](t, c.rota(t, "simulate", file, "--procs", "10000", "--policy", "p:ranking=fifo", "-o", "json"))
	if s := simulated.Policies[0]; s.Jobs != jobs || s.WaitMax != 0 ||
		int64(s.Makespan*1000+0.5) != until-lines[0].Submit {
		t.Errorf("simulated: %+v, they take %d ms", s, until-lines[0].Submit)
	}
}
