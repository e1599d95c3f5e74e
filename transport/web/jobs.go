package web

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/limits"
)

func (s *Site) jobs() {
	const jobs, job = "/v1/jobs", "/v1/jobs/{id}"
	add(s, route{method: http.MethodGet, path: jobs, call: rotav1.Jobs_List_FullMethodName, id: "listJobs",
		says: "List jobs, newest first, live jobs before terminal ones"}, s.listJobs)
	add(s, route{method: http.MethodPost, path: jobs, call: rotav1.Jobs_Submit_FullMethodName, id: "submitJobs",
		says: "Submit 1 to 1,000 jobs; each job has its own outcome"}, s.submitJobs)
	add(s, route{method: http.MethodGet, path: job, call: rotav1.Jobs_Get_FullMethodName, id: "getJob", waits: true,
		says: "Read a job with its attempts, lease, progress and output"},
		s.getJob)
	add(s, route{method: http.MethodPut, path: job, call: rotav1.Jobs_Submit_FullMethodName, id: "submitJob",
		statuses: []int{http.StatusCreated},
		says:     "Submit one job: 201, or 200 with existed if the id is already known"}, s.submitJob)
	add(s, route{method: http.MethodDelete, path: job, call: rotav1.Jobs_Delete_FullMethodName, id: "deleteJob",
		says: "Delete a job that has ended"}, s.deleteJob)
	add(s, route{method: http.MethodGet, path: job + "/why", call: rotav1.Explain_Why_FullMethodName, id: "explainJob",
		says: "Explain why a job does not run, or how its worker was chosen"}, s.why)
	add(s, route{method: http.MethodGet, path: job + "/eta", call: rotav1.Explain_Eta_FullMethodName, id: "forecastJob",
		says: "Estimate when a job starts, and list the jobs that it depends on"}, s.eta)
	add(s, route{method: http.MethodGet, path: "/v1/past", call: rotav1.Explain_Past_FullMethodName, id: "getPast",
		says: "Count the log entries to replay to read a past state; the call itself replays none"},
		s.past)
	add(s, route{method: http.MethodGet, path: job + "/logs", call: rotav1.Jobs_Log_FullMethodName, id: "getJobLog",
		says: "Read the log of an attempt of a job"}, s.jobLog)
	add(s, route{method: http.MethodGet, path: job + "/payload", call: rotav1.Jobs_Get_FullMethodName,
		id: "getJobPayload", bytes: true, says: "Read the payload as raw bytes"}, s.payload)
	add(s, route{method: http.MethodGet, path: job + "/output", call: rotav1.Jobs_Get_FullMethodName,
		id: "getJobOutput", bytes: true, says: "Read the output as raw bytes"}, s.output)
	add(s, route{method: http.MethodPost, path: job + "/cancel", call: rotav1.Jobs_Cancel_FullMethodName,
		id: "cancelJob", says: "Cancel a job"}, s.cancelJob)
	add(s, route{method: http.MethodPost, path: job + "/retry", call: rotav1.Jobs_Retry_FullMethodName, id: "retryJob",
		optional: true, says: "Retry a job that has ended"}, s.retryJob)
	add(s, route{method: http.MethodPost, path: job + "/interrupt", call: rotav1.Jobs_Interrupt_FullMethodName,
		id: "interruptJob", optional: true,
		says: "End the current attempt of a job, and try the job again"}, s.interruptJob)
	add(s, route{method: http.MethodPost, path: job + "/run-now", call: rotav1.Jobs_RunNow_FullMethodName,
		id: "runJobNow", says: "Queue a DELAYED job now, before its due time"}, s.runJobNow)
	add(s, route{method: http.MethodPost, path: job + "/change", call: rotav1.Jobs_Change_FullMethodName,
		id: "changeJob", says: "Change a pending job"}, s.changeJob)
}

// JobsQuery holds the parameters of a list of jobs.
type JobsQuery struct {
	List
	Q       string `query:"q" maxLength:"4096" doc:"Terms that a job must match, such as queue=images age>1h: those of rota job list --filter."`
	View    string `query:"view" enum:"brief,full" default:"brief" doc:"brief leaves out payload, headers, output and attempts."`
	Count   bool   `query:"count" doc:"1 returns the number of jobs instead. A page examines 100,000 jobs: if complete is false, continue with counted.next_cursor."`
	GroupBy string `query:"group_by" enum:"fingerprint" doc:"Groups jobs that failed alike, with a count and one example each, in counted.groups."`
}

func (s *Site) listJobs(ctx context.Context, in *JobsQuery) (*Answer[rota.JobPage], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Jobs.List(ctx, &rotav1.ListJobsRequest{Where: in.Q, Limit: in.Limit, Cursor: in.Cursor,
		Read: read, Count: in.Count, GroupBy: in.GroupBy})
	if err != nil {
		return nil, err
	}
	if in.View == "brief" {
		for _, j := range got.GetJobs() {
			j.Output, j.Attempts = nil, nil
			if spec := j.GetSpec(); spec != nil {
				spec.Payload, spec.Headers = nil, nil
			}
		}
	}
	page, _, err := words.JobPageFromWire(got)
	if err != nil {
		return nil, err
	}
	if page.Jobs == nil {
		page.Jobs = []rota.Job{}
	}
	return answer(page, got.GetAt()), nil
}

// Submission holds the parameters of a batch.
type Submission struct {
	Key   string `header:"Idempotency-Key" maxLength:"255" doc:"Derives the ids of jobs without one from the tenant, this key and the position: a repeated call is recognised."`
	Given In[rest.JobSubmission]
}

func (s *Site) submitJobs(ctx context.Context, in *Submission) (*Answer[rest.JobsSubmitted], error) {
	given, err := jobsOf(in.Given.raw)
	if err != nil {
		return nil, err
	}
	if n := len(given); n < 1 || n > limits.MaxBatchJobs {
		return nil, rota.Refusef(rota.KindInvalid, "jobs", "jobs: got %d, want 1 to %d", n, limits.MaxBatchJobs)
	}
	specs := make([]rota.JobSpec, len(given))
	for i, raw := range given {
		place := "jobs[" + strconv.Itoa(i) + "]"
		specs[i] = rota.NewJobSpec("", nil)
		if err := decodePart(raw, &specs[i], place); err != nil {
			return nil, err
		}
		if specs[i].ID == "" {
			if in.Key == "" {
				return nil, rota.Refusef(rota.KindInvalid, place+".id",
					"%s has no id: set one, or send the header Idempotency-Key, so that a repeated call is recognized",
					place)
			}
			specs[i].ID = keyedID(specs[i].Tenant, in.Key, i)
		}
	}
	outcomes, err := s.options.Calls.Submit(ctx, specs)
	if err != nil {
		return nil, err
	}
	done := rest.JobsSubmitted{Jobs: make([]rest.JobSubmitted, len(outcomes))}
	for i := range outcomes {
		done.Jobs[i].Submitted = outcomes[i]
		if err := outcomes[i].Err; err != nil {
			p := words.Problem(err)
			done.Jobs[i].Error = &p
			done.Refused++
		}
	}
	return answer(done, nil), nil
}

// jobsOf returns the jobs of a batch, each as raw JSON. The common form is split in one pass.
func jobsOf(raw []byte) ([]json.RawMessage, error) {
	var given struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := isText(raw, ""); err != nil {
		return nil, err
	}
	members, list := 0, false
	if json.Valid(raw) && jsonparts.Members(raw, func(name, value []byte) {
		members++
		list = string(name) == "jobs" && jsonparts.Elements(value,
			func(job []byte) { given.Jobs = append(given.Jobs, job) })
	}) && members == 1 && list {
		return given.Jobs, nil
	}
	given.Jobs = nil
	err := decode(raw, &given, "")
	return given.Jobs, err
}

var digits = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// keyedID returns the id of a job without one. It is derived, not random, so that repeating the call at any node gives
// the same id.
func keyedID(tenant rota.TenantID, key string, place int) rota.JobID {
	const idDigits = 26
	if tenant == "" {
		tenant = rota.DefaultTenant
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", tenant, key, place))
	return rota.JobID("k-" + digits.EncodeToString(sum[:])[:idDigits])
}

// OneJob holds the parameters of a read of a job.
type OneJob struct {
	One
	Wait string `query:"wait" maxLength:"32" doc:"Waits this long, at most 60s, for the end of the job, and returns it as it is then."`
}

func (s *Site) getJob(ctx context.Context, in *OneJob) (*Answer[rota.Job], error) {
	if in.Wait != "" {
		if err := s.await(ctx, rota.JobID(in.ID), in.Wait); err != nil {
			return nil, err
		}
	}
	job, at, err := s.job(ctx, &in.One, false)
	if err != nil {
		return nil, err
	}
	return answer(job, at), nil
}

// await waits until a job has ended, or the given time is over.
func (s *Site) await(ctx context.Context, id rota.JobID, text string) error {
	most, err := waitOf(text)
	if err != nil {
		return err
	}
	if err := rota.CheckJobRef("id", id); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err = s.options.Calls.Await(within, id); err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil // its time is over: the job is shown as it is
	}
	return err
}

func (s *Site) job(ctx context.Context, in *One, brief bool) (rota.Job, *rotav1.ReadAt, error) {
	read, err := in.wire()
	if err != nil {
		return rota.Job{}, nil, err
	}
	got, err := s.options.Calls.Jobs.Get(ctx, &rotav1.GetJobRequest{Id: in.ID, Read: read, Brief: brief})
	if err != nil {
		return rota.Job{}, nil, err
	}
	job, err := words.JobFromWire(got.GetJob())
	return job, got.GetAt(), err
}

func (s *Site) submitJob(ctx context.Context, in *Setting[rota.JobSpec]) (*Answer[rota.Submitted], error) {
	spec := rota.NewJobSpec("", nil) // missing fields have their defaults
	if err := decode(in.Given.raw, &spec, ""); err != nil {
		return nil, err
	}
	if spec.ID != "" && string(spec.ID) != in.ID {
		return nil, rota.Refusef(rota.KindInvalid, "id",
			"id is %.80q, but the address has %.80q: omit id, or make them equal", string(spec.ID), in.ID)
	}
	spec.ID = rota.JobID(in.ID)
	outcomes, err := s.options.Calls.Submit(ctx, []rota.JobSpec{spec})
	if err != nil {
		return nil, err
	}
	if err := outcomes[0].Err; err != nil {
		return nil, err
	}
	a := answer(outcomes[0], nil)
	if !outcomes[0].Existed {
		a.Status = http.StatusCreated
	}
	return a, nil
}

func (s *Site) deleteJob(ctx context.Context, in *Named) (*Answer[rest.JobOutcome], error) {
	return outcome(s.options.Calls.Jobs.Delete(ctx, &rotav1.DeleteJobsRequest{Ids: []string{in.ID}}))
}

func (s *Site) cancelJob(ctx context.Context, in *Named) (*Answer[rest.JobOutcome], error) {
	return outcome(s.options.Calls.Jobs.Cancel(ctx, &rotav1.CancelJobsRequest{Ids: []string{in.ID}}))
}

func (s *Site) retryJob(ctx context.Context, in *Setting[rest.JobRetry]) (*Answer[rest.JobOutcome], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	req := &rotav1.RetryJobsRequest{Ids: []string{in.ID}}
	if body.Life != nil {
		req.Lives = []int32{*body.Life}
	}
	return outcome(s.options.Calls.Jobs.Retry(ctx, req))
}

func (s *Site) interruptJob(ctx context.Context, in *Setting[rest.JobInterruption]) (*Answer[rest.JobOutcome], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	return outcome(s.options.Calls.Jobs.Interrupt(ctx, &rotav1.InterruptJobsRequest{Ids: []string{in.ID},
		Counted: body.Counted}))
}

func (s *Site) runJobNow(ctx context.Context, in *Named) (*Answer[rest.JobOutcome], error) {
	return outcome(s.options.Calls.Jobs.RunNow(ctx, &rotav1.RunJobsNowRequest{Ids: []string{in.ID}}))
}

func (s *Site) changeJob(ctx context.Context, in *Setting[rest.JobChange]) (*Answer[rest.JobOutcome], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	req := &rotav1.ChangeJobRequest{Id: in.ID, Priority: body.Priority, Fee: body.Fee, Labels: body.Labels,
		TtlMs: body.TTLMs, StartByMs: body.StartByMs, Life: body.Life, Changes: body.Changes}
	if body.Payload != nil {
		req.Payload = append([]byte{}, *body.Payload...)
	}
	done, err := s.options.Calls.Jobs.Change(ctx, req)
	if err != nil {
		return nil, err
	}
	return outcomeOf(done)
}

// outcome returns the answer to a change of one job.
func outcome(done *rotav1.JobOutcomes, err error) (*Answer[rest.JobOutcome], error) {
	if err != nil {
		return nil, err
	}
	return outcomeOf(done.GetJobs()[0])
}

func outcomeOf(w *rotav1.JobOutcome) (*Answer[rest.JobOutcome], error) {
	done, err := words.JobOutcomeFromWire(w)
	if err != nil {
		return nil, err
	}
	if done.Err != nil {
		return nil, done.Err
	}
	return answer(rest.JobOutcome{ID: done.ID, State: done.State, Index: done.Index}, nil), nil
}

// WhyQuery holds the parameters of an explanation.
type WhyQuery struct {
	One
	At     string `query:"at" maxLength:"40" doc:"A past index, or a time in RFC 3339; without it, now."`
	Others bool   `query:"others" doc:"1 also returns the other workers considered, which requires a replay of the log."`
}

// wire returns the gRPC request.
func (q *WhyQuery) wire(read *rotav1.Read) (*rotav1.WhyRequest, error) {
	req := &rotav1.WhyRequest{Id: q.ID, Read: read, Others: q.Others}
	if q.At == "" {
		return req, nil
	}
	at, err := rota.ParsePast(q.At)
	req.At, req.AtDateMs = uint64(at.At), int64(at.AtDate)
	return req, err
}

func (s *Site) why(ctx context.Context, in *WhyQuery) (*Answer[rota.Explanation], error) {
	read, err := in.Reading.wire()
	if err != nil {
		return nil, err
	}
	req, err := in.wire(read)
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Explain.Why(ctx, req)
	if err != nil {
		return nil, err
	}
	x, err := words.ExplanationFromWire(got.GetExplanation())
	if err != nil {
		return nil, err
	}
	return answer(x, got.GetAt()), nil
}

func (s *Site) eta(ctx context.Context, in *One) (*Answer[rota.ETA], error) {
	read, err := in.Reading.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Explain.Eta(ctx, &rotav1.EtaRequest{Id: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	x, err := words.ETAFromWire(got.GetEta())
	if err != nil {
		return nil, err
	}
	return answer(x, got.GetAt()), nil
}

// PastQuery selects a state of the past.
type PastQuery struct {
	At string `query:"at" maxLength:"40" required:"true" doc:"A past index, or a time in RFC 3339."`
}

func (s *Site) past(ctx context.Context, in *PastQuery) (*Answer[rota.Past], error) {
	at, err := rota.ParsePast(in.At)
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Explain.Past(ctx, &rotav1.PastRequest{At: uint64(at.At), AtDateMs: int64(at.AtDate)})
	return answer(words.PastFromWire(got), nil), err
}

// LogQuery holds the parameters of an attempt's log.
type LogQuery struct {
	One
	Attempt int32  `query:"attempt" minimum:"-1" default:"-1" doc:"Number of the attempt, from 0; -1 is the newest."`
	After   uint64 `query:"after" doc:"Number of bytes at the beginning of the log to leave out."`
}

func (s *Site) jobLog(ctx context.Context, in *LogQuery) (*Answer[rota.AttemptLog], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	req := &rotav1.JobLogRequest{Id: in.ID, After: in.After, Read: read}
	if in.Attempt >= 0 {
		req.Attempt = &in.Attempt
	}
	got, err := s.options.Calls.Jobs.Log(ctx, req)
	if err != nil {
		return nil, err
	}
	log, err := words.AttemptLogFromWire(rota.JobID(in.ID), got)
	if err != nil {
		return nil, err
	}
	if log.Parts == nil {
		log.Parts = []rota.LogPart{}
	}
	return answer(log, got.GetAt()), nil
}

// rawType is the media type of raw bytes.
const rawType = "application/octet-stream"

// binary describes raw bytes in the schema.
func binary(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: "binary"} }

// Raw is an answer of raw bytes.
type Raw struct {
	Type  string `header:"Content-Type"`
	Index string `header:"Rota-Index"`
	Age   string `header:"Rota-Age-Ms"`
	// Shown keeps a browser from showing it as a page.
	Shown string `header:"Content-Disposition"`
	Body  []byte
}

func raw(b []byte, at *rotav1.ReadAt) *Raw {
	a := answer(struct{}{}, at)
	if b == nil {
		b = []byte{}
	}
	return &Raw{Type: rawType, Index: a.Index, Age: a.Age, Shown: "attachment", Body: b}
}

func (s *Site) payload(ctx context.Context, in *One) (*Raw, error) {
	job, at, err := s.job(ctx, in, false)
	if err != nil {
		return nil, err
	}
	return raw(job.Payload, at), nil
}

func (s *Site) output(ctx context.Context, in *One) (*Raw, error) {
	job, at, err := s.job(ctx, in, false)
	if err != nil {
		return nil, err
	}
	if job.State != rota.JobCompleted {
		return nil, rota.Refusef(rota.KindNotFound, "output", "job %s has no output, as it is %s: wait until it is %s",
			job.ID, job.State, rota.JobCompleted)
	}
	return raw(job.Output, at), nil
}
