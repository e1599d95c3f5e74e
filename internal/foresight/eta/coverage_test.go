package eta_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/foresight"
	"github.com/rotasched/rota/internal/foresight/eta"
)

var (
	logs  = flag.String("logs", "", "a folder with the whole logs of docs/scheduling-quality: measure coverage on them")
	asks  = flag.Int("asks", 2_000, "how many jobs of a log to ask for")
	quick = flag.Int("jobs", 0, "take so many jobs of a log alone")
)

// asked is a job that was asked for as it was submitted, and had to wait.
type asked struct {
	job int
	at  int64
	raw eta.Raw
	eta.Interval
	own bool
}

// watch asks for every n-th job that has to wait as it is submitted, and learns as a node does.
type watch struct {
	life   *foresight.Life
	every  int
	waited int
	past   *eta.Past
	errors *eta.Errors
	order  []int // jobs that run, as they started
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
	a := asked{job: job, at: now, raw: x.Raw, Interval: w.errors.Of(x.Raw), own: true}
	w.open = append(w.open, a)
	w.all = append(w.all, a)
	for _, o := range x.Others {
		var i int
		fmt.Sscanf(string(o.Job), "j%d", &i)
		w.open = append(w.open, asked{job: i, at: now, raw: o.Raw})
	}
	return nil
}

// learn takes in what has ended and started by now.
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
		w.past.Add(eta.Ran{Queue: "batch", Tenant: j.Tenant, Type: "batch", CPUMilli: j.CPUMilli, Expected: j.Estimate, Ms: j.Run})
	}
	open := w.open[:0]
	for _, a := range w.open {
		if fates[a.job].Start >= 0 && fates[a.job].Start <= now {
			w.errors.Learn(a.raw, fates[a.job].Start-a.at)
			continue
		}
		open = append(open, a)
	}
	w.open = open
}

// coverage is the share of the jobs that were asked for that started within their interval.
func coverage(t *testing.T, jobs []foresight.Job, procs int64, policy string, every int) (w *watch, fates []foresight.Fate) {
	t.Helper()
	p, err := foresight.ParsePolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	workers := foresight.Machine(procs)
	jobs, _ = foresight.Fitting(jobs, workers)
	w = &watch{life: &foresight.Life{Jobs: jobs, Workers: workers, Settings: p.Settings}, every: every, past: eta.NewPast(), errors: eta.NewErrors(), seen: make([]bool, len(jobs))}
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
		return "nobody waited"
	}
	n := float64(f.asked)
	return fmt.Sprintf("asked %d, within %.3f, before %.3f, after %.3f, width median %.2f of the wait, expected/wait %.2f %.2f %.2f", f.asked, float64(f.in)/n, float64(f.early)/n, float64(f.late)/n,
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

// TestCoverage_logs measures whole logs, where they are there.
func TestCoverage_logs(t *testing.T) {
	if *logs == "" {
		t.Skip("no -logs: the whole logs are not measured")
	}
	for _, log := range []struct {
		file  string
		procs int64
		how   foresight.Cleaning
	}{{"lublin_256.swf.gz", 256, foresight.CleanRLS}, {"NASA-iPSC-1993-3.1-cln.swf.gz", 128, foresight.CleanSWF},
		{"CTC-SP2-1996-3.1-cln.swf.gz", 338, foresight.CleanPredictsim}, {"SDSC-BLUE-2000-4.2-cln.swf.gz", 1152, foresight.CleanPredictsim}} {
		for _, policy := range []string{"easy:ranking=fifo,backfill=easy", "sjf:ranking=shortest,backfill=easy,shortest_aging=10"} {
			jobs := readLog(t, filepath.Join(*logs, log.file), log.how)
			if *quick > 0 && len(jobs) > *quick {
				jobs = jobs[:*quick]
			}
			w, fates := coverage(t, jobs, log.procs, policy, max(1, len(jobs) / *asks))
			f := w.figures(fates, 0)
			fmt.Println(log.file, policy, len(jobs), "waited", w.waited, "never", w.never, f.String(), "took", w.took/time.Duration(max(1, len(w.all))))
		}
	}
}

// TestCoverage: of the jobs of a window of a log that have to wait, as many start within their interval as are said to.
func TestCoverage(t *testing.T) {
	jobs := readLog(t, filepath.Join("..", "testdata", "lublin_256_1981.swf.gz"), foresight.CleanRLS)
	w, fates := coverage(t, jobs, 256, "easy:ranking=fifo,backfill=easy", 6)
	f := w.figures(fates, 0)
	t.Log(f.String())
	if f.asked < 80 || f.in*1000 < 880*f.asked || f.in*1000 > 970*f.asked {
		t.Errorf("%d of %d start within their interval, %d before and %d after it", f.in, f.asked, f.early, f.late)
	}
}
