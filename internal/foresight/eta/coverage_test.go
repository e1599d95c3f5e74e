package eta_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/foresight"
	"github.com/rotasched/rota/internal/foresight/eta"
)

var (
	logs = flag.String("logs", "",
		"a folder with the whole logs of docs/guides/scheduling-quality.md: measure coverage on them")
	asks = flag.Int("asks", 500, "how many jobs of a load to ask for, of which those are counted that wait")
	load = flag.String("load", "", "measure only loads whose names begin so")
	draw = flag.String("picture", "", "draw what TestCoverage_logs measures to this file")
)

// asked is a job that had to wait, with the forecast made at its submission.
type asked struct {
	job int
	at  int64
	raw eta.Raw
	eta.Interval
	own bool
}

// watch makes a forecast for every n-th job that has to wait when it is submitted, and learns as a node does.
type watch struct {
	life   *foresight.Life
	every  int
	waited int
	past   *eta.Past
	errors *eta.Errors
	order  []int // running jobs, in the order of their starts
	seen   []bool
	open   []asked
	all    []asked
	took   time.Duration
	never  int
}

func (w *watch) submitted(m *fsm.Machine, job int, fates []foresight.Fate) error {
	now := w.life.Jobs[job].Submit
	if fates[job].Start >= 0 {
		return nil
	}
	if w.waited++; w.waited%w.every != 0 {
		return nil
	}
	w.learn(now, job, fates)
	start := time.Now()
	x, err := eta.Ask(context.Background(), m.Freeze(), rota.JobID(fmt.Sprint("j", job)), w.past)
	if err != nil {
		return err
	}
	w.took += time.Since(start)
	if x.Never {
		w.never++
		return nil
	}
	a := asked{job: job, at: now, raw: x.Raw, Interval: w.errors.Of(x.Raw)}
	w.open = append(w.open, a)
	w.all = append(w.all, a)
	for _, o := range x.Others {
		var i int
		fmt.Sscanf(string(o.Job), "j%d", &i)
		w.open = append(w.open, asked{job: i, at: now, raw: o.Raw})
	}
	return nil
}

// learn adds the jobs that have ended and started by now.
func (w *watch) learn(now int64, job int, fates []foresight.Fate) {
	type end struct {
		at  int64
		job int
	}
	var ends []end
	for i := range w.life.Jobs[:job] {
		if !w.seen[i] && fates[i].End >= 0 && fates[i].End <= now {
			w.seen[i] = true
			ends = append(ends, end{fates[i].End, i})
		}
	}
	slices.SortFunc(ends, func(a, b end) int { return int(a.at - b.at) })
	for _, e := range ends {
		j := &w.life.Jobs[e.job]
		w.past.Add(eta.Ran{Queue: "batch", Tenant: j.Tenant, Type: "batch", CPUMilli: j.CPUMilli, Expected: j.Estimate,
			Ms: j.Run})
	}
	open := w.open[:0]
	for _, a := range w.open {
		start := int64(-1)
		if at := fates[a.job].Start; at >= 0 && at <= now {
			start = at - a.at
		}
		if !w.errors.Settle(a.raw, now-a.at, start) {
			open = append(open, a)
		}
	}
	w.open = open
}

// coverage returns the share of the jobs with forecasts that started within their interval.
func coverage(t *testing.T, jobs []foresight.Job, procs int64, policy string,
	every int) (w *watch, fates []foresight.Fate) {
	t.Helper()
	p, err := foresight.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	workers := foresight.Machine(procs)
	jobs, _ = foresight.Fitting(jobs, workers)
	w = &watch{life: &foresight.Life{Jobs: jobs, Workers: workers, Settings: p.Settings}, every: every,
		past: eta.NewPast(), errors: eta.NewErrors(), seen: make([]bool, len(jobs))}
	w.life.Submitted = w.submitted
	fates, err = foresight.Simulate(context.Background(), w.life)
	if err != nil {
		t.Fatal(err)
	}
	return w, fates
}

type figures struct {
	asked, in, early, late int
	width, off             []float64
}

func (w *watch) figures(fates []foresight.Fate, from int) (f figures) {
	for _, a := range w.all[min(from, len(w.all)):] {
		start := fates[a.job].Start - a.at
		f.asked++
		switch {
		case start < a.Earliest:
			f.early++
		case start > a.Latest:
			f.late++
		default:
			f.in++
		}
		f.width = append(f.width, float64(a.Latest-a.Earliest)/float64(start+1000))
		f.off = append(f.off, float64(a.Expected+1000)/float64(start+1000))
	}
	slices.Sort(f.width)
	slices.Sort(f.off)
	return f
}

func (f *figures) String() string {
	if f.asked == 0 {
		return "no job waited"
	}
	n := float64(f.asked)
	return fmt.Sprintf(
		"asked %d, within %.3f, before %.3f, after %.3f, width median %.2f of the wait, expected/wait %.2f %.2f %.2f",
		f.asked, float64(f.in)/n, float64(f.early)/n, float64(f.late)/n,
		f.width[len(f.width)/2], f.off[len(f.off)/10], f.off[len(f.off)/2], f.off[len(f.off)*9/10])
}

func readLog(t *testing.T, name string, how foresight.Cleaning) []foresight.Job {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	log, err := flowfile.ReadSWF(file, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := foresight.Clean(log, how)
	return jobs
}

// measuring is a load that coverage is measured on.
type measuring struct {
	name  string
	shown bool
	jobs  []foresight.Job
	procs int64
}

// window reads some jobs of a log.
func window(t *testing.T, file string, how foresight.Cleaning, from, most int) []foresight.Job {
	jobs := readLog(t, filepath.Join(*logs, file), how)
	return jobs[from:min(len(jobs), from+most)]
}

// drawn draws a load of two tenants on 64 processors, whose run times are lognormal.
func drawn(t *testing.T, seed int, pattern, long, run string, perHour int) []foresight.Job {
	t.Helper()
	stream := fmt.Sprintf("%s, per_hour: %d, run: %s, spread: 1.2, estimate: 3, processors: {1: 8, 4: 4, 16: 1}}",
		pattern, perHour/2, run)
	text := fmt.Sprintf("seed: %d\nfor: %s\nprocessors: 64\nstreams:\n- {tenant: ann, %s\n- {tenant: bob, %s\n", seed,
		long, stream, stream)
	parsed, err := flowfile.ParseLoad([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := foresight.Draw(parsed, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestCoverage_logs measures logs and drawn loads, if the logs are available, and prints the table of
// docs/internals/forecasts.md. The loads that are not shown are the ones that errors.go was tuned on.
func TestCoverage_logs(t *testing.T) {
	if *logs == "" {
		t.Skip("no -logs: the logs are not measured")
	}
	const part = 12_000
	batch := []string{"easy:ranking=fifo,backfill=easy", "shortest:ranking=shortest,backfill=easy,shortest_aging=10"}
	short := []string{"easy:ranking=fifo,backfill=easy", "standard:preset=standard"}
	const poisson, bursty, diurnal = "pattern: poisson", "pattern: bursty, burst: 20", "pattern: diurnal"
	var lines []measured
	for _, m := range []struct {
		measuring
		policies []string
	}{
		{measuring{"lublin_256", false, window(t, "lublin_256.swf.gz", foresight.CleanRLS, 0, part), 256}, batch},
		{measuring{"CTC-SP2", false, window(t, "CTC-SP2-1996-3.1-cln.swf.gz", foresight.CleanPredictsim, 0, part), 338},
			batch}, {measuring{"Poisson, 10 min", false, drawn(t, 1, poisson, "10d", "10m", 56), 64}, batch},
		{measuring{"Poisson, 10 s", false, drawn(t, 2, poisson, "4h", "10s", 3_360), 64}, short},
		{measuring{"CTC-SP2, later", true, window(t, "CTC-SP2-1996-3.1-cln.swf.gz", foresight.CleanPredictsim, 40_000,
			part), 338}, batch},
		{measuring{"SDSC-BLUE", true, window(t, "SDSC-BLUE-2000-4.2-cln.swf.gz", foresight.CleanPredictsim, 0, part),
			1152}, batch},
		{measuring{"SDSC-BLUE, later", true, window(t, "SDSC-BLUE-2000-4.2-cln.swf.gz", foresight.CleanPredictsim,
			100_000, part), 1152}, batch},
		{measuring{"NASA-iPSC, on 64", true, window(t, "NASA-iPSC-1993-3.1-cln.swf.gz", foresight.CleanSWF, 0, 20_000),
			64}, batch}, {measuring{"bursty, 10 min", true, drawn(t, 3, bursty, "10d", "10m", 56), 64}, batch},
		{measuring{"bursty, 10 s", true, drawn(t, 4, bursty, "4h", "10s", 3_360), 64}, short},
		{measuring{"diurnal, 10 min", true, drawn(t, 5, diurnal, "10d", "10m", 56), 64}, batch},
		{measuring{"diurnal, 10 s", true, drawn(t, 6, diurnal, "14h", "10s", 2_000), 64}, short},
	} {
		for _, policy := range m.policies {
			if !strings.HasPrefix(m.name, *load) {
				continue
			}
			w, fates := coverage(t, m.jobs, m.procs, policy, max(1, len(m.jobs) / *asks))
			name, _, _ := strings.Cut(policy, ":")
			line := measured{m.name, name, m.shown, w.figures(fates, 0)}
			t.Log(line.load, line.policy, len(m.jobs), "jobs, waited", w.waited, "never", w.never, line.String(),
				"took", w.took/time.Duration(max(1, len(w.all))))
			lines = append(lines, line)
		}
	}
	fmt.Print(table(lines))
	if *draw != "" {
		if err := os.WriteFile(*draw, []byte(picture(lines)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCoverage checks that of the jobs of a log's window that have to wait, the promised share starts within the
// interval.
func TestCoverage(t *testing.T) {
	jobs := readLog(t, filepath.Join("..", "testdata", "lublin_256_1981.swf.gz"), foresight.CleanRLS)
	w, fates := coverage(t, jobs, 256, "easy:ranking=fifo,backfill=easy", 6)
	f := w.figures(fates, 0)
	t.Log(f.String())
	if f.asked < 80 || f.in*1000 < 880*f.asked || f.in*1000 > 970*f.asked {
		t.Errorf("%d of %d start within their interval, %d before and %d after it", f.in, f.asked, f.early, f.late)
	}
}
