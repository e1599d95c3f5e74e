package foresight

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

// Cleaning is how gaps in a log are filled.
type Cleaning string

// The cleanings. CleanRLS and CleanPredictsim are those of the papers of these names.
const (
	CleanSWF        Cleaning = "swf"
	CleanRLS        Cleaning = "rls"
	CleanPredictsim Cleaning = "predictsim"
)

// Cleanings lists them.
var Cleanings = []string{string(CleanSWF), string(CleanRLS), string(CleanPredictsim)}

// Dropped counts the jobs that a rule left out.
type Dropped struct {
	Rule string `json:"rule"`
	Jobs int64  `json:"jobs"`
}

// Clean converts a log into jobs, and counts the jobs it leaves out by rule. A job's tenant is its user.
func Clean(log *flowfile.SWFLog, how Cleaning) (jobs []Job, dropped []Dropped) {
	jobs = make([]Job, 0, len(log.Jobs))
	tenants := make(map[int64]rota.TenantID)
	for i := range log.Jobs {
		j, rule := clean(&log.Jobs[i], how)
		if rule != "" {
			dropped = drop(dropped, rule)
			continue
		}
		if user := log.Jobs[i].User; user >= 0 {
			if tenants[user] == "" {
				tenants[user] = rota.TenantID(fmt.Sprint("u", user))
			}
			j.Tenant = tenants[user]
		}
		jobs = append(jobs, j)
	}
	return jobs, dropped
}

// Fitting leaves out the jobs that no worker could ever run, counted by the limit that they exceed.
func Fitting(jobs []Job, workers []rota.WorkerSpec) (fitting []Job, dropped []Dropped) {
	cpu := int64(0)
	for i := range workers {
		cpu = max(cpu, workers[i].CPUMilli)
	}
	fitting = make([]Job, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		switch {
		case j.CPUMilli > cpu:
			dropped = drop(dropped, fmt.Sprintf("more than the %d processors of the largest worker", cpu/1000))
		case !slices.ContainsFunc(workers, func(w rota.WorkerSpec) bool { return fits(j, &w) }):
			dropped = drop(dropped, "no worker offers what they ask for")
		default:
			fitting = append(fitting, *j)
		}
	}
	return fitting, dropped
}

func drop(dropped []Dropped, rule string) []Dropped {
	for i := range dropped {
		if dropped[i].Rule == rule {
			dropped[i].Jobs++
			return dropped
		}
	}
	return append(dropped, Dropped{rule, 1})
}

// clean returns one job, or the rule that leaves it out.
func clean(s *flowfile.SWFJob, how Cleaning) (j Job, rule string) {
	run, estimate, procs := s.Run, s.Estimate, s.Processors()
	switch how {
	case CleanRLS:
		procs = max(s.Allocated, s.Requested)
		if run < 0 {
			run = 10
		}
		if estimate < 0 {
			estimate = run
		}
	case CleanPredictsim:
		if estimate <= 0 {
			return j, "no estimate"
		}
		if s.Requested > 0 {
			procs = s.Requested
		}
		run = min(run, estimate)
	default:
		if estimate <= 0 {
			estimate = run
		}
	}
	switch {
	case run <= 0:
		return j, "no run time"
	case procs <= 0:
		return j, "no processors"
	}
	j = Job{Submit: seconds(s.Submit), Run: seconds(run), Estimate: seconds(min(max(estimate, 1), longest/1000)),
		CPUMilli: procs * 1000}
	return j, ""
}
