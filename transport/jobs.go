package transport

import (
	"context"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// jobsService answers the service Jobs.
type jobsService struct {
	rotav1.UnimplementedJobsServer
	server *Server
	core   Core
}

// Submit refuses misshapen jobs one by one, at their places, and hands the
// others on (SPEC §4.2).
func (s *jobsService) Submit(ctx context.Context, req *rotav1.SubmitRequest) (*rotav1.SubmitResponse, error) {
	if err := checkCount("jobs", len(req.GetJobs()), rota.MaxBatchJobs); err != nil {
		return nil, err
	}
	answer := &rotav1.SubmitResponse{Jobs: make([]*rotav1.Submitted, len(req.GetJobs()))}
	specs := make([]rota.JobSpec, 0, len(req.GetJobs()))
	places := make([]int, 0, len(req.GetJobs()))
	for i, wire := range req.GetJobs() {
		spec := words.JobSpecFromWire(wire)
		if spec.Tenant == "" {
			spec.Tenant = rota.DefaultTenant
		}
		if spec.Queue == "" {
			spec.Queue = rota.DefaultQueue
		}
		if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
			answer.Jobs[i] = &rotav1.Submitted{Id: wire.GetId(), Refusal: words.RefusalToWire(refusalOf(ctx, err))}
			continue
		}
		specs, places = append(specs, spec), append(places, i)
	}
	if len(specs) == 0 {
		return answer, nil
	}
	outcomes, err := s.core.Submit(ctx, specs)
	if err != nil {
		return nil, err
	}
	if err := checkLengths("jobs", len(specs), len(outcomes)); err != nil {
		return nil, err
	}
	for n := range outcomes {
		answer.Jobs[places[n]] = words.SubmittedToWire(&outcomes[n])
		answer.Index = max(answer.Index, uint64(outcomes[n].Index))
	}
	return answer, nil
}

// Get reads one job.
func (s *jobsService) Get(ctx context.Context, req *rotav1.GetJobRequest) (*rotav1.GetJobResponse, error) {
	if err := rota.CheckJobRef("id", rota.JobID(req.GetId())); err != nil {
		return nil, err
	}
	job, at, err := s.core.Job(ctx, rota.JobID(req.GetId()), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetJobResponse{Job: words.JobToWire(&job), At: words.ReadAtToWire(at)}, nil
}

// List reads one page. Only the core can make a cursor, so a page of too many
// bytes is asked for again with a limit that fits.
func (s *jobsService) List(ctx context.Context,
	req *rotav1.ListJobsRequest) (*rotav1.ListJobsResponse, error) {
	filter, opt, err := words.JobFilterFromWire(req)
	if err != nil {
		return nil, err
	}
	if err := checkLimit(req.GetLimit(), req.GetCursor()); err != nil {
		return nil, err
	}
	for _, f := range []struct{ field, id string }{
		{"queue", req.GetQueue()}, {"tenant", req.GetTenant()}, {"type", req.GetType()},
	} {
		if err := checkOptionalID(f.field, f.id); err != nil {
			return nil, err
		}
	}
	for {
		page, at, err := s.core.Jobs(ctx, filter, opt)
		if err != nil {
			return nil, err
		}
		answer := words.JobPageToWire(&page, at)
		fit := fitting(answer.GetJobs(), pageBytes)
		if fit == len(answer.GetJobs()) {
			return answer, nil
		}
		filter.Limit = fit
		if !opt.Stale {
			opt.MinIndex = at.Index // as fresh as the first reading, without asking the leader again
		}
	}
}

// Wait sends each job once it is terminal. It lasts as long as the caller
// wants, or until this node goes.
func (s *jobsService) Wait(req *rotav1.WaitJobsRequest, stream grpc.ServerStreamingServer[rotav1.Job]) error {
	if err := checkCount("ids", len(req.GetIds()), rota.MaxBatchJobs); err != nil {
		return err
	}
	for _, id := range req.GetIds() {
		if err := rota.CheckJobRef("ids", rota.JobID(id)); err != nil {
			return err
		}
	}
	ctx, cancel := s.server.untilDrain(stream.Context())
	defer cancel()
	err := s.core.AwaitJobs(ctx, words.JobIDsFromWire(req.GetIds()), func(job rota.Job) error {
		return stream.Send(words.JobToWire(&job))
	})
	if err != nil && s.server.draining.Err() != nil {
		return s.server.going()
	}
	return err
}

// Cancel and Retry answer each id at its place.
func (s *jobsService) Cancel(ctx context.Context,
	req *rotav1.CancelJobsRequest) (*rotav1.JobOutcomes, error) {
	return outcomes(ctx, req.GetIds(), s.core.Cancel)
}

// Retry revives terminal jobs (SPEC §9.1).
func (s *jobsService) Retry(ctx context.Context, req *rotav1.RetryJobsRequest) (*rotav1.JobOutcomes, error) {
	return outcomes(ctx, req.GetIds(), s.core.Retry)
}

// ReportProof takes a verifier's word on a completed job.
func (s *jobsService) ReportProof(ctx context.Context,
	req *rotav1.ReportProofRequest) (*rotav1.JobOutcome, error) {
	report, err := words.ProofReportFromWire(req)
	if err != nil {
		return nil, err
	}
	if err := rota.CheckJobRef("id", report.Job); err != nil {
		return nil, err
	}
	if err := checkReason(report.Reason); err != nil {
		return nil, err
	}
	outcome, err := s.core.ReportProof(ctx, report)
	if err != nil {
		return nil, err
	}
	return words.JobOutcomeToWire(&outcome), nil
}

func outcomes(ctx context.Context, ids []string,
	do func(context.Context, []rota.JobID) ([]rota.JobOutcome, error)) (*rotav1.JobOutcomes, error) {
	if err := checkCount("ids", len(ids), rota.MaxBatchJobs); err != nil {
		return nil, err
	}
	answer := &rotav1.JobOutcomes{Jobs: make([]*rotav1.JobOutcome, len(ids))}
	good := make([]rota.JobID, 0, len(ids))
	places := make([]int, 0, len(ids))
	for i, id := range ids {
		if err := rota.CheckJobRef("id", rota.JobID(id)); err != nil {
			answer.Jobs[i] = &rotav1.JobOutcome{Id: id, Refusal: words.RefusalToWire(refusalOf(ctx, err))}
			continue
		}
		good, places = append(good, rota.JobID(id)), append(places, i)
	}
	if len(good) == 0 {
		return answer, nil
	}
	done, err := do(ctx, good)
	if err != nil {
		return nil, err
	}
	if err := checkLengths("ids", len(good), len(done)); err != nil {
		return nil, err
	}
	for n := range done {
		answer.Jobs[places[n]] = words.JobOutcomeToWire(&done[n])
	}
	return answer, nil
}
