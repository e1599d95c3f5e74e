package foresight

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// Draw draws the jobs of a load: the same jobs from the same seed. It refuses more than most.
func Draw(l *flowfile.Load, most int) ([]Job, error) {
	long, err := rota.ParseDuration(l.For)
	if err != nil || long <= 0 || long > rota.MaxDuration {
		return nil, fmt.Errorf("for: got %q; use a duration such as 7d", l.For)
	}
	if l.Processors < 0 || l.Processors > rota.MaxCPUMilli/1000 {
		return nil, fmt.Errorf("processors must be between 1 and %d, got %d", rota.MaxCPUMilli/1000, l.Processors)
	}
	var jobs []Job
	for i := range l.Streams {
		s := &drawn{Stream: &l.Streams[i], random: rand.New(rand.NewPCG(l.Seed, uint64(i))),
			end: float64(long.Milliseconds())}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("stream %d: %w", i+1, err)
		}
		if jobs, err = s.draw(jobs, most); err != nil {
			return nil, fmt.Errorf("stream %d: %w", i+1, err)
		}
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, nil
}

// drawn is a stream of randomly drawn jobs.
type drawn struct {
	*flowfile.Stream
	random *rand.Rand
	end    float64 // ms
	run    float64 // ms
	spec   *rota.JobSpec
	procs  []int64
	weight float64
}

// check parses and checks a stream's settings.
func (s *drawn) check() error {
	run, err := rota.ParseDuration(s.Run)
	s.run = float64(run.Milliseconds())
	for n := range s.Processors {
		s.procs = append(s.procs, n)
	}
	slices.Sort(s.procs)
	for _, n := range s.procs {
		if w := s.Processors[n]; n < 1 || n > rota.MaxCPUMilli/1000 || w < 0 || w > 1e9 {
			return fmt.Errorf(
				"processors: got %d: %g; use numbers of processors and their weights, such as {1: 8, 4: 1}", n, w)
		}
		s.weight += s.Processors[n]
	}
	switch {
	case err != nil || run <= 0 || run > rota.MaxDuration:
		return fmt.Errorf("run: got %q; use a duration such as 10m", s.Run)
	case !(s.PerHour > 0 && s.PerHour <= 1e9):
		return fmt.Errorf("per_hour must be more than 0, got %g", s.PerHour)
	case !slices.Contains([]string{"", "poisson", "bursty", "diurnal"}, s.Pattern):
		return fmt.Errorf("pattern must be one of poisson, bursty, diurnal, got %q", s.Pattern)
	case s.Pattern == "bursty" && !(s.Burst >= 1 && s.Burst <= 1e6):
		return fmt.Errorf("burst must be at least 1 job on average, got %g", s.Burst)
	case !(s.Spread >= 0 && s.Spread <= 10) || s.Spread > 0 && s.Tail > 0:
		return fmt.Errorf("spread must be between 0 and 10, and without tail, got %g", s.Spread)
	case !(s.Tail == 0 || s.Tail >= 0.1 && s.Tail <= 100):
		return fmt.Errorf("tail must be between 0.1 and 100, got %g", s.Tail)
	case !(s.Estimate == 0 || s.Estimate >= 1 && s.Estimate <= 1000):
		return fmt.Errorf("estimate must be between 1 and 1000, got %g", s.Estimate)
	case len(s.procs) > 0 && s.weight == 0:
		return fmt.Errorf("processors: all weights are 0")
	}
	spec := rota.NewJobSpec(rota.JobType(cmp.Or(s.Type, simType)), nil)
	spec.ID, spec.Tenant = "j", cmp.Or(rota.TenantID(s.Tenant), rota.DefaultTenant)
	if s.Priority != nil {
		spec.Priority = *s.Priority
	}
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return err
	}
	s.spec = &spec
	return nil
}

// draw adds a stream's jobs.
func (s *drawn) draw(jobs []Job, most int) ([]Job, error) {
	gap := 3_600_000 / s.PerHour // ms
	for at := 0.0; at < s.end; {
		n := 1
		switch s.Pattern {
		case "bursty": // as many arrive at once, geometrically distributed, then none for a correspondingly longer time
			for n < 1<<20 && s.random.Float64() >= 1/s.Burst {
				n++
			}
			at += s.random.ExpFloat64() * gap * s.Burst
		case "diurnal": // twice as many at noon, none at midnight
			at += s.random.ExpFloat64() * gap / 2
			if s.random.Float64() >= (1-math.Cos(2*math.Pi*at/float64(24*time.Hour/time.Millisecond)))/2 {
				continue
			}
		default:
			at += s.random.ExpFloat64() * gap
		}
		for range n {
			if at >= s.end {
				break
			}
			if len(jobs) == most {
				return nil, fmt.Errorf("the load has more than %d jobs: lower per_hour or for", most)
			}
			jobs = append(jobs, s.job(int64(at)))
		}
	}
	return jobs, nil
}

// job draws a job.
func (s *drawn) job(at int64) Job {
	run := s.run
	switch {
	case s.Tail > 0:
		run *= math.Pow(1-s.random.Float64(), -1/s.Tail)
	case s.Spread > 0:
		run *= math.Exp(s.random.NormFloat64() * s.Spread)
	}
	j := Job{Submit: at, Run: int64(max(1, min(run, float64(longest)/1000))), CPUMilli: 1000, Tenant: s.spec.Tenant,
		Spec: s.spec}
	j.Estimate = j.Run
	if s.Estimate > 1 {
		j.Estimate = min(int64(float64(j.Run)*(1+s.random.Float64()*(s.Estimate-1))), longest)
	}
	if s.weight > 0 {
		x := s.random.Float64() * s.weight
		for _, n := range s.procs {
			j.CPUMilli = n * 1000
			if x -= s.Processors[n]; x < 0 {
				break
			}
		}
	}
	return j
}
