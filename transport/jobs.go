package transport

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

// jobsService serves Jobs.
type jobsService struct {
	rotav1.UnimplementedJobsServer
	server *Server
	core   interface {
		JobCore
		SelfCore
	}
}

// jobsDesc returns the service with Submit read and written by package words.
func jobsDesc() *grpc.ServiceDesc {
	desc := rotav1.Jobs_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Submit" {
			desc.Methods[i].Handler = submitHandler
		}
	}
	return &desc
}

// submitHandler replaces the generated handler for the messages of package words.
func submitHandler(service any, ctx context.Context, decode func(any) error,
	edge grpc.UnaryServerInterceptor) (any, error) {
	in := new(words.Submission)
	if err := decode(in); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: service, FullMethod: rotav1.Jobs_Submit_FullMethodName}
	return edge(ctx, in, info, func(ctx context.Context, in any) (any, error) {
		return service.(*jobsService).submit(ctx, in.(*words.Submission))
	})
}

// submit answers with the messages of package words.
func (s *jobsService) submit(ctx context.Context, in *words.Submission) (*words.Written, error) {
	all, err := s.admit(ctx, in.Jobs)
	if err != nil {
		return nil, err
	}
	if leader, ok := s.core.Leader(); ok {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(words.LeaderKey, leader.API)) // fails only outside of a call
	}
	return words.WriteSubmitOutcomes(all), nil
}

// admit rejects malformed jobs one by one, at their positions, and submits the others (SPEC §4.2). It overwrites the
// list of jobs.
func (s *jobsService) admit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
	if err := checkCount("jobs", len(jobs), limits.MaxBatchJobs); err != nil {
		return nil, err
	}
	all := make([]rota.Submitted, len(jobs))
	specs, places := jobs[:0], make([]int, 0, len(jobs))
	for i := range jobs {
		spec := &jobs[i]
		if spec.Tenant == "" {
			spec.Tenant = rota.DefaultTenant
		}
		if spec.Queue == "" {
			spec.Queue = rota.DefaultQueue
		}
		if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
			all[i] = rota.Submitted{ID: spec.ID, Err: refusalOf(ctx, err).OrNil()}
			continue
		}
		if places = append(places, i); len(specs) < i { // an earlier one was rejected
			jobs[len(specs)] = *spec
		}
		specs = jobs[:len(specs)+1]
	}
	if len(specs) == 0 {
		return all, nil
	}
	outcomes, err := s.core.Submit(ctx, specs)
	if err != nil {
		return nil, err
	}
	if err := checkLengths("jobs", len(specs), len(outcomes)); err != nil {
		return nil, err
	}
	for n := range outcomes {
		deniedItem(ctx, outcomes[n].Err)
		all[places[n]] = outcomes[n]
	}
	return all, nil
}

// await waits until a job has ended.
func (s *jobsService) await(ctx context.Context, id rota.JobID) error {
	ctx, cancel := s.server.untilDrain(ctx)
	defer cancel()
	err := s.core.AwaitJobs(ctx, []rota.JobID{id}, func(rota.Job) error { return nil })
	if err != nil && s.server.draining.Err() != nil {
		return s.server.going()
	}
	return err
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
	if req.GetBrief() {
		job.Payload, job.Headers, job.Output, job.Attempts = nil, nil, nil, nil
	}
	return &rotav1.GetJobResponse{Job: words.JobToWire(&job), At: words.ReadAtToWire(at)}, nil
}

// List reads one page.
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
	return onePage(&filter.Limit, (*rotav1.ListJobsResponse).GetJobs, func() (*rotav1.ListJobsResponse, error) {
		page, at, err := s.core.Jobs(ctx, filter, opt)
		if err != nil {
			return nil, err
		}
		if !opt.Stale {
			opt.MinIndex = at.Index // a second read is as fresh as the first, without asking the leader again
		}
		return words.JobPageToWire(&page, at), nil
	})
}

// Wait sends each job once it is terminal. It lasts as long as the caller wishes, or until this node shuts down.
func (s *jobsService) Wait(req *rotav1.WaitJobsRequest, stream grpc.ServerStreamingServer[rotav1.Job]) error {
	if err := checkCount("ids", len(req.GetIds()), limits.MaxBatchJobs); err != nil {
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

// Cancel and Retry answer each id at its position.
func (s *jobsService) Cancel(ctx context.Context,
	req *rotav1.CancelJobsRequest) (*rotav1.JobOutcomes, error) {
	return outcomes(ctx, words.JobIDsFromWire(req.GetIds()), jobID, s.core.Cancel)
}

// Retry revives terminal jobs (SPEC §9.1).
func (s *jobsService) Retry(ctx context.Context, req *rotav1.RetryJobsRequest) (*rotav1.JobOutcomes, error) {
	ids, lives := req.GetIds(), req.GetLives()
	if len(lives) != 0 && len(lives) != len(ids) {
		return nil, rota.Refusef(rota.KindInvalid, "lives", "lives: got %d for %d ids, want the same number or none",
			len(lives), len(ids))
	}
	retries := make([]rota.JobRetry, len(ids))
	for i, id := range ids {
		retries[i] = rota.JobRetry{ID: rota.JobID(id), Life: rota.AnyLife}
		if len(lives) != 0 {
			retries[i].Life = lives[i]
		}
		if life := retries[i].Life; life < rota.AnyLife {
			return nil, rota.Refusef(rota.KindInvalid, "lives", "lives: got %d, want %d or more", life, rota.AnyLife)
		}
	}
	return outcomes(ctx, retries, func(r rota.JobRetry) rota.JobID { return r.ID }, s.core.Retry)
}

// Delete deletes ended jobs (SPEC §21.3).
func (s *jobsService) Delete(ctx context.Context, req *rotav1.DeleteJobsRequest) (*rotav1.JobOutcomes, error) {
	return outcomes(ctx, words.JobIDsFromWire(req.GetIds()), jobID, s.core.DeleteJobs)
}

// Interrupt ends the current attempt of each job (SPEC §21.9).
func (s *jobsService) Interrupt(ctx context.Context, req *rotav1.InterruptJobsRequest) (*rotav1.JobOutcomes, error) {
	interrupt := func(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
		return s.core.Interrupt(ctx, ids, req.GetCounted())
	}
	return outcomes(ctx, words.JobIDsFromWire(req.GetIds()), jobID, interrupt)
}

// RunNow queues DELAYED jobs before their time (SPEC §21.10).
func (s *jobsService) RunNow(ctx context.Context, req *rotav1.RunJobsNowRequest) (*rotav1.JobOutcomes, error) {
	return outcomes(ctx, words.JobIDsFromWire(req.GetIds()), jobID, s.core.RunNow)
}

// Change changes a pending job.
func (s *jobsService) Change(ctx context.Context, req *rotav1.ChangeJobRequest) (*rotav1.JobOutcome, error) {
	change := words.JobChangeFromWire(req)
	if err := change.CheckShape(rota.MaxPayloadBytes); err != nil {
		return nil, err
	}
	return reply(words.JobOutcomeToWire)(s.core.ChangeJob(ctx, change))
}

// ReportProof records a verifier's verdict on a completed job.
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
	return reply(words.JobOutcomeToWire)(s.core.ReportProof(ctx, report))
}

func jobID(id rota.JobID) rota.JobID { return id }

// outcomes applies a call to the jobs with valid ids, and returns one outcome per job, in order.
func outcomes[T any](ctx context.Context, items []T, idOf func(T) rota.JobID,
	do func(context.Context, []T) ([]rota.JobOutcome, error)) (*rotav1.JobOutcomes, error) {
	if err := checkCount("ids", len(items), limits.MaxBatchJobs); err != nil {
		return nil, err
	}
	answer := &rotav1.JobOutcomes{Jobs: make([]*rotav1.JobOutcome, len(items))}
	good := make([]T, 0, len(items))
	places := make([]int, 0, len(items))
	for i, item := range items {
		id := idOf(item)
		if err := rota.CheckJobRef("id", id); err != nil {
			answer.Jobs[i] = &rotav1.JobOutcome{Id: string(id), Refusal: words.RefusalToWire(refusalOf(ctx, err))}
			continue
		}
		good, places = append(good, item), append(places, i)
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
		deniedItem(ctx, done[n].Err)
		answer.Jobs[places[n]] = words.JobOutcomeToWire(&done[n])
	}
	return answer, nil
}
