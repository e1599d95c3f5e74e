package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/foresight"
)

// fewJobs is up to how many jobs the simulator's heap is small enough to be collected less often.
const fewJobs = 200_000

// load reads the jobs and what they run on, and says what was dropped.
func (s *simulation) load(ctx context.Context, a *cli.App, plan *foresight.Plan, path string) error {
	read := func(path string) ([]foresight.Job, int64, []foresight.Dropped, error) {
		return s.readTrace(ctx, a, path)
	}
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		read = s.readLoad
	case ".json":
		if text, err := flowfile.Read(path, nil); err == nil && flowfile.FormatOf(text) == flowfile.FormatWfCommons {
			read = func(path string) ([]foresight.Job, int64, []foresight.Dropped, error) {
				return s.readFlow(plan, path, text)
			}
		}
	}
	jobs, procs, dropped, err := read(path)
	if err != nil {
		return err
	}
	if plan.Workers, err = s.machine(path, cmp.Or(s.procs, procs)); err != nil {
		return err
	}
	if s.limits != "" {
		text, err := os.ReadFile(s.limits)
		if err != nil {
			return cli.Usagef("read --limits: %w", err)
		}
		if plan.Limits, err = flowfile.ParseLimits(text); err != nil {
			return cli.Failf("read limits %s: %w", s.limits, err)
		}
	}
	fitting, large := foresight.Fitting(jobs, plan.Workers)
	for _, d := range slices.Concat(dropped, large) {
		a.Talk("%d jobs dropped: %s", d.Jobs, d.Rule)
	}
	if len(fitting) < fewJobs {
		debug.SetGCPercent(400)
	}
	plan.Jobs = fitting
	if plan.Flow != nil && len(fitting) < len(jobs) {
		return cli.Failf(
			"simulate: no worker can run %d of the workflow's %d nodes: give larger ones by --procs or --workers",
			len(jobs)-len(fitting), len(jobs))
	}
	switch {
	case len(fitting) > 0:
		return nil
	case len(jobs) > 0:
		return cli.Failf("simulate: no worker can run any of the %d jobs: give larger ones by --procs or --workers",
			len(jobs))
	default:
		return cli.Failf("simulate: --clean %s leaves none of the jobs: try another", s.clean)
	}
}

// machine is what the jobs run on.
func (s *simulation) machine(path string, procs int64) ([]rota.WorkerSpec, error) {
	if s.workers != "" {
		text, err := os.ReadFile(s.workers)
		if err != nil {
			return nil, cli.Usagef("read --workers: %w", err)
		}
		workers, err := flowfile.ParseWorkers(text)
		if err != nil {
			return nil, cli.Failf("read workers %s: %w", s.workers, err)
		}
		return workers, nil
	}
	switch {
	case procs > maxSimulatedProcs:
		return nil, cli.Failf(
			"read trace %s: too many processors in its header: got %d, maximum %d; set others with --procs",
			path, procs, maxSimulatedProcs)
	case procs == 0:
		return nil, cli.Usagef("%s does not describe the machine: set --procs or --workers", path)
	}
	return foresight.Machine(procs), nil
}

// readTrace reads a job log of either format, and its machine's processors, 0 where it names none.
func (s *simulation) readTrace(ctx context.Context, a *cli.App,
	path string) (jobs []foresight.Job, procs int64, dropped []foresight.Dropped, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, nil, cli.Usagef("read trace: %w", err)
	}
	defer file.Close()
	trace, err := flowfile.ReadTrace(interruptible{ctx, file}, cmp.Or(s.jobs, maxSimulatedJobs))
	if err == nil && s.jobs == 0 && trace.More > 0 {
		err = fmt.Errorf("line %d: more than %d jobs: use --jobs N for the first N, or split the log", trace.More,
			maxSimulatedJobs)
	}
	if errors.Is(err, flowfile.ErrNoJobs) {
		return nil, 0, nil, cli.Failf(
			"read trace %s: it has no jobs: a job log in the Standard Workload Format or jobs one JSON object a line, either plain or gzip'd, "+
				"a WfCommons instance (.json) or a load to draw (.yaml)", path)
	}
	unended := int64(0)
	if err == nil && trace.SWF == nil {
		jobs, unended, err = foresight.FromTimed(trace.Timed)
	}
	if err != nil {
		return nil, 0, nil, cli.Failf("read trace %s: %w", path, err)
	}
	if unended > 0 {
		a.Talk("%d jobs had not ended: they run for their expected_ms, else for the median of their type", unended)
	}
	if trace.SWF == nil {
		return jobs, 0, nil, nil
	}
	jobs, dropped = foresight.Clean(trace.SWF, foresight.Cleaning(s.clean))
	return jobs, trace.SWF.Machine(), dropped, nil
}

// interruptible is a reader that ends with its context.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// readLoad draws the jobs of a load.
func (s *simulation) readLoad(path string) (jobs []foresight.Job, procs int64, dropped []foresight.Dropped, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, nil, cli.Usagef("read load: %w", err)
	}
	load, err := flowfile.ParseLoad(text)
	if err == nil {
		jobs, err = foresight.Draw(load, maxSimulatedJobs)
	}
	if err == nil && len(jobs) == 0 {
		err = errors.New("it has no jobs: raise per_hour or for")
	}
	if err != nil {
		return nil, 0, nil, cli.Failf("read load %s: %w", path, err)
	}
	if s.jobs > 0 {
		jobs = jobs[:min(s.jobs, len(jobs))]
	}
	return jobs, load.Processors, nil, nil
}

// readFlow reads the nodes of a recorded workflow, with the cores that it recorded, and with the memory where workers
// of one's own say what they have.
func (s *simulation) readFlow(plan *foresight.Plan, path string,
	text []byte) (jobs []foresight.Job, procs int64, dropped []foresight.Dropped, err error) {
	if s.jobs > 0 || s.starts != "" {
		return nil, 0, nil, cli.Usagef("%s is a workflow, which is always simulated in full: omit --jobs and --starts",
			path)
	}
	spec, err := flowfile.Parse(text, path, flowfile.FormatWfCommons, flowfile.Options{Scale: 1, Resources: true})
	if err == nil {
		for i := range spec.Nodes {
			if s.workers == "" {
				spec.Nodes[i].MemoryBytes = 0
			}
		}
		plan.Flow, jobs, err = foresight.FromWorkflow(&spec)
	}
	if err != nil {
		return nil, 0, nil, cli.Failf("read workflow %s: %w", path, err)
	}
	return jobs, 0, nil, nil
}

// page begins the page of --report, and returns what writes it.
func (s *simulation) page(plan *foresight.Plan,
	path string) (write func(results []foresight.Result, partial bool) error, err error) {
	if s.report == "" {
		return func([]foresight.Result, bool) error { return nil }, nil
	}
	file, err := os.OpenFile(s.report, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, cli.Usagef("--report: %s is there already: remove it, or name another", s.report)
	}
	if err != nil {
		return nil, cli.Usagef("--report: %w", err)
	}
	report := foresight.NewReport(filepath.Base(path))
	plan.Lived = report.Lived
	return func(results []foresight.Result, partial bool) error {
		var notes []string
		if partial {
			notes = append(notes, fmt.Sprintf("Partial: %d of %d policies were finished.", finished(results),
				len(plan.Policies)))
		}
		if n := len(plan.Starts); n > 1 {
			notes = append(notes, fmt.Sprintf("Figures are means over %d windows; pictures show the last one.", n))
		}
		err := report.Write(file, results, notes)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return cli.Failf("write --report: %w", err)
		}
		return nil
	}, nil
}
