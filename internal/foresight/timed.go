package foresight

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// FromTimed takes jobs of a file that has one a line; expected_ms is their estimate, else the run time. What they ask for that only a cluster
// could give is refused.
func FromTimed(timed []flowfile.TimedJob) ([]Job, error) {
	jobs := make([]Job, len(timed))
	for i := range timed {
		t := &timed[i]
		spec := &t.Spec
		for _, f := range []struct {
			name string
			set  bool
		}{{"not_before_ms", !spec.NotBefore.IsZero()}, {"unique", spec.Unique != nil}, {"keys", len(spec.Keys) > 0}, {"batch", spec.Batch != ""},
			{"expected_digest", len(spec.ExpectedDigest) > 0}, {"max_runtime_ms", spec.MaxRuntime != 0}} {
			if f.set {
				return nil, rota.Refusef(rota.KindInvalid, f.name, "line %d: %s is not simulated: leave it out", t.Line, f.name)
			}
		}
		jobs[i] = Job{Submit: t.SubmitMs, Run: max(t.RunMs, 1), Estimate: t.RunMs, CPUMilli: spec.CPUMilli, Tenant: spec.Tenant, Spec: spec}
		if ms := spec.Expected.Milliseconds(); ms > 0 {
			jobs[i].Estimate = ms
		}
		jobs[i].Estimate = max(jobs[i].Estimate, 1)
	}
	return jobs, nil
}

// fits reports whether a worker could ever take a job.
func fits(j *Job, w *rota.WorkerSpec) bool {
	if j.CPUMilli > w.CPUMilli {
		return false
	}
	s := j.Spec
	if s == nil {
		return w.Handles(simType)
	}
	if s.MemoryBytes > w.MemoryBytes || s.IOBytesPerS > w.IOBytesPerS || s.Worker != "" && s.Worker != w.ID || !w.Handles(s.Type) {
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
	return (len(s.RegionsAllow) == 0 || slices.Contains(s.RegionsAllow, w.Region)) && !slices.Contains(s.RegionsDeny, w.Region)
}
