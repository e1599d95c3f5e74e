package loadgen

import "time"

// Report is the result of a measurement.
type Report struct {
	Jobs        int     `json:"jobs"`
	Seconds     float64 `json:"seconds"`
	JobsPerS    float64 `json:"jobs_per_s"`
	E2EP50Ms    float64 `json:"e2e_p50_ms"`
	E2EP99Ms    float64 `json:"e2e_p99_ms"`
	SubmitP50Ms float64 `json:"submit_p50_ms"`
	SubmitP99Ms float64 `json:"submit_p99_ms"`
	Lost        int64   `json:"lost"`
	Duplicated  int64   `json:"duplicated"`
	Errors      int64   `json:"errors"`

	// Refused is how often admission refused a job, RefusedHintless how often without a delay, RefusedHeld how often
	// the client library did so itself until a delay had passed. Reruns are handlers beyond a job's first.
	Refused         int64 `json:"refused"`
	RefusedHeld     int64 `json:"refused_held"`
	RefusedHintless int64 `json:"refused_hintless"`
	Reruns          int64 `json:"reruns"`
	// Overlaps are the part of Duplicated that ran at two workers at once.
	Overlaps  int64 `json:"overlaps"`
	Accepted  int64 `json:"accepted"`
	Completed int64 `json:"completed"`
	// CompletedUnseen of Completed were confirmed only by asking the cluster: the worker lost the answer.
	CompletedUnseen int64   `json:"completed_unseen"`
	SubmitSeconds   float64 `json:"submit_seconds"`
	E2EP999Ms       float64 `json:"e2e_p999_ms"`
	E2EMaxMs        float64 `json:"e2e_max_ms"`
	// ProcessCPUUs is the CPU of this process (submitters, workers) for a job.
	ProcessCPUUs float64 `json:"process_cpu_us_per_job"`
	// ServersCPUUs is that of the servers, CPUUs of both together; nil if --admin did not name the servers, or for the
	// reason in ServersCPUUnknown.
	ServersCPUUs      *float64 `json:"servers_cpu_us_per_job,omitempty"`
	CPUUs             *float64 `json:"cpu_us_per_job,omitempty"`
	ServersCPUUnknown string   `json:"servers_cpu_unknown,omitempty"`

	Waits []ClassWait `json:"waits,omitempty"`
}

// report calculates the result from the ledger.
func (r *run) report() *Report {
	ledger := r.ledger
	e2e := ledger.spans(planned, finished, nil)
	submit := ledger.spans(planned, answered, nil)
	seconds := ledger.last().Seconds()
	done := ledger.completed.Load()
	perJob := func(cpu time.Duration) float64 { return RoundTo(float64(cpu.Microseconds())/float64(max(done, 1)), 10) }
	report := &Report{
		Jobs: len(ledger.jobs), Seconds: RoundTo(seconds, 1000), JobsPerS: RoundTo(float64(done)/seconds, 10),
		E2EP50Ms: quantile(e2e, 0.50), E2EP99Ms: quantile(e2e, 0.99),
		E2EP999Ms: quantile(e2e, 0.999), E2EMaxMs: quantile(e2e, 1),
		SubmitP50Ms: quantile(submit, 0.50), SubmitP99Ms: quantile(submit, 0.99),
		Lost: ledger.accepted.Load() - done, Duplicated: ledger.duplicated(), Overlaps: ledger.overlaps.Load(),
		Refused: ledger.refused.Load(), RefusedHeld: ledger.held.Load(), RefusedHintless: ledger.hintless.Load(),
		Reruns: ledger.reruns.Load(),
		Errors: ledger.errors.Load(), Accepted: ledger.accepted.Load(), Completed: done, CompletedUnseen: r.unseen,
		SubmitSeconds: RoundTo(r.submitted.Seconds(), 1000),
		ProcessCPUUs:  perJob(r.cpu.here), ServersCPUUnknown: r.cpu.unknown,
	}
	if len(r.meter.admins) > 0 && r.cpu.unknown == "" {
		servers, both := perJob(r.cpu.servers), perJob(r.cpu.here+r.cpu.servers)
		report.ServersCPUUs, report.CPUUs = &servers, &both
	}
	return report
}
