package foresight

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// FromTimed returns the jobs of a file with one job a line; expected_ms is the estimate, by default the run time. A job
// that had not ended runs for its estimate, else for the median of the ended ones of its type, else of all ended ones;
// unended counts these jobs. Requirements that only a cluster could meet are refused.
func FromTimed(timed []flowfile.TimedJob) (jobs []Job, unended int64, err error) {
	jobs = make([]Job, len(timed))
	ran := make(map[rota.JobType][]int64)
	for i := range timed {
		t := &timed[i]
		spec := &t.Spec
		for _, f := range []struct {
			name string
			set  bool
		}{{"not_before_ms", !spec.NotBefore.IsZero()}, {"unique", spec.Unique != nil}, {"batch", spec.Batch != ""},
			{"expected_digest", len(spec.ExpectedDigest) > 0}, {"max_runtime_ms", spec.MaxRuntime != 0}} {
			if f.set {
				return nil, 0, rota.Refusef(rota.KindInvalid, f.name, "line %d: %s is not simulated: omit it", t.Line,
					f.name)
			}
		}
		jobs[i] = Job{Submit: t.SubmitMs, Run: t.RunMs, Estimate: spec.Expected.Milliseconds(), CPUMilli: spec.CPUMilli,
			Tenant: spec.Tenant, Spec: spec, Spent: t.Spent}
		if t.RunMs < 0 {
			unended++
			continue
		}
		ran[spec.Type] = append(ran[spec.Type], t.RunMs)
		ran[""] = append(ran[""], t.RunMs)
	}
	for typ, runs := range ran {
		slices.Sort(runs)
		ran[typ] = runs[len(runs)/2:]
	}
	for i := range jobs {
		j := &jobs[i]
		if j.Run < 0 {
			switch typ := ran[j.Spec.Type]; {
			case j.Estimate > 0:
				j.Run = j.Estimate
			case len(typ) > 0:
				j.Run = typ[0]
			case len(ran[""]) > 0:
				j.Run = ran[""][0]
			default:
				return nil, 0, rota.Refusef(rota.KindInvalid, "run_ms",
					"line %d: run_ms is missing, and no job of the file has ended: set run_ms", timed[i].Line)
			}
		}
		if j.Run = max(j.Run, 1); j.Estimate <= 0 {
			j.Estimate = j.Run
		}
	}
	return jobs, unended, nil
}

// fits reports whether a worker could ever run a job.
func fits(j *Job, w *rota.WorkerSpec) bool {
	if j.CPUMilli > w.CPUMilli {
		return false
	}
	s := j.Spec
	if s == nil {
		return w.Handles(simType)
	}
	if s.MemoryBytes > w.MemoryBytes || s.IOBytesPerS > w.IOBytesPerS || s.Worker != "" && s.Worker != w.ID ||
		!w.Handles(s.Type) {
		return false
	}
	for _, need := range s.Requires {
		if !slices.Contains(w.Capabilities, need) {
			return false
		}
	}
	for name, least := range s.Limits {
		if w.Limits[name] < least {
			return false
		}
	}
	return (len(s.RegionsAllow) == 0 || slices.Contains(s.RegionsAllow, w.Region)) &&
		!slices.Contains(s.RegionsDeny, w.Region)
}
