package foresight

import (
	"cmp"
	"slices"

	"github.com/rotasched/rota"
)

// slowdownTau is the run time, in ms, below which a slowdown is bounded.
const slowdownTau = 10_000

// Result has the figures of a policy: means over windows, the greatest of maxima, sums of counts. Jobs that expired
// or were refused count only in Jobs.
type Result struct {
	Name string `json:"name"`
	// Partial means that the policy was interrupted: Jobs are those that had ended by then.
	Partial         bool    `json:"partial,omitempty"`
	Jobs            int64   `json:"jobs"`
	Expired         int64   `json:"expired,omitempty"`
	Refused         int64   `json:"refused,omitempty"`
	Preempted       int64   `json:"preempted,omitempty"`
	BoundedSlowdown float64 `json:"bounded_slowdown_mean"`
	SlowdownP95     float64 `json:"bounded_slowdown_p95"`
	WaitMeanS       float64 `json:"wait_mean_s"`
	WaitMedianS     float64 `json:"wait_median_s"`
	WaitP95S        float64 `json:"wait_p95_s"`
	WaitP99S        float64 `json:"wait_p99_s"`
	WaitMaxS        float64 `json:"wait_max_s"`
	// WaitBoundS is how long the job that waited longest might have waited by SPEC §26.4, WaitOfBound the largest part
	// of its own bound that any job waited; Unbounded is the reason if there are none.
	WaitBoundS  float64 `json:"wait_bound_s,omitempty"`
	WaitOfBound float64 `json:"wait_of_bound_max,omitempty"`
	Unbounded   string  `json:"wait_bound_none,omitempty"`
	Utilisation float64 `json:"utilisation"`
	MakespanS   float64 `json:"makespan_s"`
	// CriticalPathS is the longest chain of a workflow's run times, a lower limit of every makespan.
	CriticalPathS    float64 `json:"critical_path_s,omitempty"`
	ThroughputPerDay float64 `json:"throughput_jobs_per_day"`
	// Fairness is Jain's index over the tenants' mean bounded slowdowns: 1 if all are equal, 1 ÷ tenants at worst.
	Fairness float64 `json:"jain_index"`
	// Tenants and Sizes are the jobs of all windows by tenant, in descending order of processor time, and by size.
	Tenants []Group `json:"tenants"`
	Sizes   []Group `json:"sizes"`
}

// Group has the figures of the jobs of one kind.
type Group struct {
	Name            string  `json:"name"`
	Jobs            int64   `json:"jobs"`
	BoundedSlowdown float64 `json:"bounded_slowdown_mean"`
	WaitMeanS       float64 `json:"wait_mean_s"`
	WaitP95S        float64 `json:"wait_p95_s"`
	WaitMaxS        float64 `json:"wait_max_s"`
	CPUHours        float64 `json:"cpu_hours"`
}

// sizes are the classes of jobs by processors, as rota bench trace has them.
var sizes = [...]string{"serial", "small", "medium", "large"}

func sizeOf(j *Job) int {
	switch {
	case j.CPUMilli <= 1_000:
		return 0
	case j.CPUMilli <= 8_000:
		return 1
	case j.CPUMilli <= 64_000:
		return 2
	default:
		return 3
	}
}

// tally collects a policy's windows.
type tally struct {
	result  Result
	tenants map[rota.TenantID]*tallied
	sizes   [len(sizes)]tallied
}

// tallied is the data of one group.
type tallied struct {
	waits    []int64
	slowdown float64
	cpu      float64 // milli-processor-milliseconds
}

func (g *tallied) add(wait int64, slowdown, cpu float64) {
	g.waits = append(g.waits, wait)
	g.slowdown += slowdown
	g.cpu += cpu
}

func (g *tallied) group(name string) Group {
	slices.Sort(g.waits)
	n := float64(len(g.waits))
	sum := 0.0
	for _, w := range g.waits {
		sum += float64(w)
	}
	return Group{Name: name, Jobs: int64(len(g.waits)), BoundedSlowdown: g.slowdown / n, WaitMeanS: sum / n / 1000,
		WaitP95S: inS(rank(g.waits, 95)), WaitMaxS: inS(g.waits[len(g.waits)-1]), CPUHours: g.cpu / 1000 / 3_600_000}
}

// inS converts milliseconds to seconds.
func inS(ms int64) float64 { return float64(ms) / 1000 }

// slowdownOf returns the bounded slowdown of a job with this wait.
func slowdownOf(j *Job, wait int64) float64 {
	return max(1, float64(wait+j.Run)/float64(max(j.Run, slowdownTau)))
}

// window adds one life.
func (t *tally) window(l *Life, fates []Fate) {
	r := Result{Jobs: int64(len(fates))}
	waits, slowdowns := make([]int64, 0, len(fates)), make([]float64, 0, len(fates))
	first, area := l.Jobs[0].Submit, 0.0
	last := first
	bounds, none := l.bounds(fates)
	r.Unbounded = none
	longest := int64(-1)
	for i := range fates {
		j, f := &l.Jobs[i], &fates[i]
		r.Preempted += int64(f.Preempted)
		if f.Expired {
			r.Expired++
			continue
		}
		if f.Refused {
			r.Refused++
			continue
		}
		wait := f.Start - f.Ready
		slowdown, cpu := slowdownOf(j, wait), float64(j.Run)*float64(j.CPUMilli)
		waits, slowdowns = append(waits, wait), append(slowdowns, slowdown)
		if bounds != nil {
			r.WaitOfBound = max(r.WaitOfBound, float64(wait)/float64(bounds[i]))
			if wait > longest {
				longest, r.WaitBoundS = wait, inS(bounds[i])
			}
		}
		r.WaitMeanS += float64(wait)
		r.BoundedSlowdown += slowdown
		area += cpu
		last = max(last, f.End)
		t.of(j.Tenant).add(wait, slowdown, cpu)
		t.sizes[sizeOf(j)].add(wait, slowdown, cpu)
	}
	if n := float64(len(waits)); n > 0 {
		r.WaitMeanS /= n * 1000
		r.BoundedSlowdown /= n
		slices.Sort(waits)
		slices.Sort(slowdowns)
		r.WaitMedianS, r.WaitP95S, r.WaitP99S = inS(rank(waits, 50)), inS(rank(waits, 95)), inS(rank(waits, 99))
		r.SlowdownP95, r.WaitMaxS = rank(slowdowns, 95), inS(waits[len(waits)-1])
	}
	if l.Flow != nil {
		t.result.CriticalPathS = inS(l.Flow.Critical)
	}
	if span := float64(last - first); span > 0 {
		r.MakespanS = span / 1000
		r.Utilisation = area / (span * float64(capacity(l.Workers)))
		r.ThroughputPerDay = float64(len(waits)) * 86_400_000 / span
	}
	t.result.add(&r)
}

// of returns the data of a tenant.
func (t *tally) of(tenant rota.TenantID) *tallied {
	tenant = cmp.Or(tenant, rota.DefaultTenant)
	if t.tenants[tenant] == nil {
		t.tenants[tenant] = &tallied{}
	}
	return t.tenants[tenant]
}

// capacity returns the millicores of all workers.
func capacity(workers []rota.WorkerSpec) (cpu int64) {
	for i := range workers {
		cpu += workers[i].CPUMilli
	}
	return max(cpu, 1)
}

// over returns the result over a number of windows.
func (t *tally) over(windows int) Result {
	r := &t.result
	for _, f := range r.means(r) {
		*f[0] /= float64(windows)
	}
	sum, squares := 0.0, 0.0
	for name, g := range t.tenants {
		group := g.group(string(name))
		r.Tenants = append(r.Tenants, group)
	}
	slices.SortFunc(r.Tenants, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.CPUHours, a.CPUHours), cmp.Compare(a.Name, b.Name))
	})
	for i := range r.Tenants {
		sum += r.Tenants[i].BoundedSlowdown
		squares += r.Tenants[i].BoundedSlowdown * r.Tenants[i].BoundedSlowdown
	}
	if squares > 0 {
		r.Fairness = sum * sum / (float64(len(r.Tenants)) * squares)
	}
	for i := range sizes {
		if len(t.sizes[i].waits) > 0 {
			r.Sizes = append(r.Sizes, t.sizes[i].group(sizes[i]))
		}
	}
	return *r
}

// interrupted is over for a policy whose last window was not finished: a bound needs all of its jobs.
func (t *tally) interrupted(windows int) Result {
	r := t.over(windows)
	r.Partial, r.WaitBoundS, r.WaitOfBound, r.Unbounded = true, 0, 0, "it was interrupted"
	return r
}

// rank returns the nearest-rank percentile of a sorted list.
func rank[T any](sorted []T, percent int) T { return sorted[max(0, (len(sorted)*percent+99)/100-1)] }

func (r *Result) add(o *Result) {
	r.Jobs += o.Jobs
	r.Expired += o.Expired
	r.Refused += o.Refused
	r.Preempted += o.Preempted
	if r.Unbounded = o.Unbounded; o.WaitMaxS >= r.WaitMaxS {
		r.WaitMaxS, r.WaitBoundS = o.WaitMaxS, o.WaitBoundS
	}
	r.WaitOfBound = max(r.WaitOfBound, o.WaitOfBound)
	for _, f := range r.means(o) {
		*f[0] += *f[1]
	}
}

// means pairs the figures that are means over windows.
func (r *Result) means(o *Result) [][2]*float64 {
	return [][2]*float64{{&r.BoundedSlowdown, &o.BoundedSlowdown}, {&r.SlowdownP95, &o.SlowdownP95},
		{&r.WaitMeanS, &o.WaitMeanS},
		{&r.WaitMedianS, &o.WaitMedianS}, {&r.WaitP95S, &o.WaitP95S}, {&r.WaitP99S, &o.WaitP99S},
		{&r.Utilisation, &o.Utilisation}, {&r.MakespanS, &o.MakespanS}, {&r.ThroughputPerDay, &o.ThroughputPerDay}}
}
