package job

import (
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/millis"
)

// SubmitFlags are the flags of `job submit` as given.
type SubmitFlags struct {
	id, queue, typ, tenant    string
	priority                  int32
	fee, size                 int64
	cpu, memory, io           int64
	payload                   string
	delay, ttl, startBy       time.Duration
	requires                  []string
	regionsAllow, regionsDeny []string
	zone, domain, worker      string
	expectedDigest            string
	simulateMs, expectedMs    int64
	units                     int64
	at                        rota.Date
	maxRuntime                time.Duration
	labels, headers           []string
	limits, dataKeys          []string
	keys, costs               []string
	batch                     string
	retryOnInvalidProof       bool
	retry                     rota.RetryPolicy
	factor, jitter            float64
	unique                    rota.Unique
	wait                      bool
	file                      string
}

// Submit returns `rota job submit`.
func (a Commands) Submit() *cobra.Command {
	f := &SubmitFlags{}
	cmd := &cobra.Command{
		Use:   "submit --queue Q --type T [flags] | submit --file F.jsonl",
		Short: "Submit one job, or a file of jobs",
		Long: `Submit one job and print it, or submit a file of jobs in order: one JSON object a line with the
API's field names. Submitting the same job again changes nothing and prints it; another job
under a known id is refused (exit 4).`,
		Args: cobra.NoArgs,
	}
	f.Register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.file != "" {
			if err := f.refuseBeside(cmd); err != nil {
				return err
			}
			return a.Does(a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
				return a.submitFile(ctx, c, f.file)
			}))(cmd, args)
		}
		spec, err := f.Spec(a.Stdin)
		if err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, _ []string) error { return a.submitOne(ctx, spec, f.wait) })(cmd,
			args)
	}
	return cmd
}

// formerFlags are the names that flags had in v0.1.0, under which they are taken as well.
var formerFlags = map[string]string{"attempt-max": "retry-attempts", "backoff-base": "retry-base",
	"backoff-cap": "retry-cap", "backoff-factor": "retry-factor", "backoff-jitter": "retry-jitter"}

func presentFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(cmp.Or(formerFlags[name], name))
}

// Register defines the flags.
func (f *SubmitFlags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetNormalizeFunc(presentFlag)
	flags.StringVar(&f.queue, "queue", string(rota.DefaultQueue), "`queue` to wait in")
	flags.StringVar(&f.typ, "type", "", "handler `type` asked for")
	flags.StringVar(&f.id, "id", "", "the job's `id`, the idempotency key (default: a new one)")
	flags.Int32Var(&f.priority, "priority", rota.DefaultPriority, "0 (critical) to 10 (background)")
	flags.StringVar(&f.tenant, "tenant", "", "`tenant` that submits")
	flags.Int64Var(&f.fee, "fee", 0, "fee in millionths of a unit")
	flags.Int64Var(&f.size, "size", 0, "declared size in `bytes` (default: the payload's)")
	flags.StringVar(&f.payload, "payload", "", "payload: the `text` itself, @FILE, or - for stdin")
	cli.DurationVar(flags, &f.delay, "delay", 0, "delay the job by this time")
	flags.Var((*cli.DateValue)(&f.at), "at",
		"delay the job until this `date`, such as 2031-01-31T15:04:05Z; local without a zone")
	flags.Int64Var(&f.retry.Attempts, "retry-attempts", 0,
		"how many `attempts` the job has (default: the queue's attempt_max)")
	cli.DurationVar(flags, &f.retry.Base, "retry-base", 0,
		"the wait after the first attempt that fails (default: the queue's)")
	cli.DurationVar(flags, &f.retry.Cap, "retry-cap", 0, "the longest wait between two attempts (default: the queue's)")
	flags.Float64Var(&f.factor, "retry-factor", 0,
		"`factor` of growth of the wait, 1 to 1000 (default: the queue's)")
	flags.Float64Var(&f.jitter, "retry-jitter", -1,
		"maximum `ratio` of random change of a wait, 0 to 1 (default: the queue's)")
	flags.Lookup("retry-jitter").DefValue = "0" // the help says what it is
	cli.DurationVar(flags, &f.maxRuntime, "max-runtime", 0,
		"end an attempt after this time, at least 3s; its worker ends it 1s earlier (default: the queue's max_runtime)")
	flags.StringArrayVar(&f.labels, "label", nil,
		"`key=value` of your own, shown and kept with the job; may be repeated")
	flags.StringArrayVar(&f.headers, "header", nil,
		"`key=value` for the worker, such as traceparent=00-…: no part of the job's content; may be repeated")
	cli.DurationVar(flags, &f.ttl, "ttl", 0, "expire the job this long after submission")
	cli.DurationVar(flags, &f.startBy, "start-by", 0,
		"expire the job unless it starts within this time of submission")
	flags.Int64Var(&f.cpu, "cpu", 0, "`millicores` used of the worker's")
	flags.Int64Var(&f.memory, "memory", 0, "`bytes` of memory used of the worker's")
	flags.Int64Var(&f.io, "io", 0, "`bytes` of I/O a second used of the worker's")
	flags.StringArrayVar(&f.requires, "requires", nil, "`label` that the worker must have; may be repeated")
	flags.StringArrayVar(&f.regionsAllow, "region-allow", nil, "`region` allowed; may be repeated")
	flags.StringArrayVar(&f.regionsDeny, "region-deny", nil, "`region` denied; may be repeated")
	flags.StringVar(&f.zone, "zone", "", "preferred `zone`")
	flags.StringVar(&f.domain, "domain", "", "failure `domain`")
	flags.StringVar(&f.worker, "worker", "", "pin the job to this `worker`")
	flags.StringVar(&f.expectedDigest, "expected-digest", "", "SHA-256 that the output must have, in `hex`")
	flags.Int64Var(&f.simulateMs, "simulate-ms", 0, "how long the built-in handler waits")
	flags.StringArrayVar(&f.limits, "limit", nil,
		"`name=N` that the worker must offer at least, such as depth=20; may be repeated")
	flags.Int64Var(&f.expectedMs, "expected-ms", 0, "expected run time, for queues with estimate=user")
	flags.BoolVar(&f.retryOnInvalidProof, "retry-on-invalid-proof", false,
		"run again if a verifier rejects the proof after completion")
	flags.StringArrayVar(&f.keys, "key", nil,
		"`name:value` that the job shares with others, for key rules; may be repeated")
	flags.StringVar(&f.batch, "batch", "", "`batch` that the job is counted in, which is open")
	flags.StringArrayVar(&f.costs, "cost", nil,
		"`NAME=AMOUNT` that the job is expected to use, for key rules with a unit; may be repeated")
	flags.StringArrayVar(&f.dataKeys, "data-key", nil,
		"`name` of data that the work reads; workers that hold it are preferred; may be repeated")
	flags.Int64Var(&f.units, "units", 0, "units used of the worker's units_per_period (default: 1)")
	f.registerUnique(flags)
	cli.Within(flags, 0, rota.MaxPriority, "priority")
	cli.Within(flags, 0, int64(rota.MaxFee), "fee")
	cli.Within(flags, 0, int64(rota.MaxSizeBytes), "size")
	cli.Within(flags, 0, rota.MaxDuration, "delay", "ttl", "start-by")
	cli.WithinOrZero(flags, time.Duration(rota.MaxRuntimeLeast)*time.Millisecond, rota.MaxDuration, "max-runtime")
	cli.BoundResources(flags)
	cli.Within(flags, 0, rota.MaxAttempts, "retry-attempts")
	cli.WithinOrZero(flags, 1.0, 1_000.0, "retry-factor")
	cli.Within(flags, 0.0, 1.0, "retry-jitter")
	cli.Within(flags, 0, rota.MaxDuration, "retry-base", "retry-cap")
	cli.Within(flags, 0, cli.MaxMs, "simulate-ms", "expected-ms")
	cli.Within(flags, 0, int64(rota.MaxUnits), "units")
	flags.BoolVar(&f.wait, "wait", false, "wait until the job has ended; exit 6 if not COMPLETED")
	flags.StringVar(&f.file, "file", "", "submit the jobs of this JSON-lines `file`, - for stdin")
}

// refuseBeside refuses flags that say something about one job beside --file.
func (f *SubmitFlags) refuseBeside(cmd *cobra.Command) error {
	var beside []string
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Name != "file" {
			beside = append(beside, "--"+flag.Name)
		}
	})
	if len(beside) > 0 {
		return cli.Usagef("--file does not allow %s: set it in each line of the file", strings.Join(beside, ", "))
	}
	return nil
}

// Spec makes the job that the flags describe.
func (f *SubmitFlags) Spec(stdin io.Reader) (rota.JobSpec, error) {
	var none rota.JobSpec
	if f.typ == "" {
		return none, cli.Usagef("--type is missing: it selects the handler that runs the job")
	}
	payload, err := cli.ReadPayload(f.payload, stdin)
	if err != nil {
		return none, err
	}
	s := rota.NewJobSpec(rota.JobType(f.typ), payload)
	s.ID, s.Queue, s.Tenant = rota.JobID(f.id), rota.QueueName(f.queue), rota.TenantID(f.tenant)
	s.Priority, s.Fee, s.SizeBytes = f.priority, f.fee, f.size
	s.Delay, s.TTL, s.MaxRuntime, s.NotBefore = f.delay, f.ttl, f.maxRuntime, f.at.Time()
	s.StartBy = f.startBy
	s.CPUMilli, s.MemoryBytes, s.IOBytesPerS = f.cpu, f.memory, f.io
	s.Requires, s.RegionsAllow, s.RegionsDeny = f.requires, f.regionsAllow, f.regionsDeny
	s.Zone, s.Domain, s.Worker = f.zone, f.domain, rota.WorkerID(f.worker)
	s.Simulate, s.Expected, s.Units = millis.Duration(f.simulateMs), millis.Duration(f.expectedMs), f.units
	s.RetryOnInvalidProof, s.DataKeys, s.Retry, s.Unique = f.retryOnInvalidProof, f.dataKeys, f.retry, f.uniqueness()
	s.Keys, s.Batch = f.keys, rota.BatchID(f.batch)
	if s.Costs, err = rota.ParseCosts("costs", f.costs); err != nil {
		return none, err
	}
	s.Retry.FactorPermille = cli.Permille(f.factor)
	if s.Retry.JitterPermille = cli.Permille(max(0, f.jitter)); f.jitter == 0 {
		s.Retry.JitterPermille = -1
	}
	if s.Limits, err = cli.ParseLimits(f.limits); err != nil {
		return none, err
	}
	s.Labels, err = cli.ParsePairs("--label", f.labels, "team=search",
		func(text string) (string, error) { return text, nil })
	if err != nil {
		return none, err
	}
	s.Headers, err = cli.ParsePairs("--header", f.headers, "traceparent=00-…",
		func(text string) (string, error) { return text, nil })
	if err != nil {
		return none, err
	}
	if f.expectedDigest != "" {
		digest, err := hex.DecodeString(f.expectedDigest)
		if err != nil || len(digest) != 32 {
			return none, cli.Usagef("--expected-digest: got %q; use a SHA-256 of 64 hex digits", f.expectedDigest)
		}
		s.ExpectedDigest = digest
	}
	if s.ID == "" {
		s.ID, s.Minted = client.NewJobID(), true
	}
	if s.Tenant == "" {
		s.Tenant = rota.DefaultTenant
	}
	if err := s.CheckShape(rota.MaxPayloadBytes); err != nil {
		return none, err
	}
	return s, nil
}

// throttleHint is what a submitter is told whose job was taken by a queue that
// fills up (SPEC §4.6).
const throttleHint = "the queue is more than half full: slow down"

// printSubmitted prints a job as it is now; to who may not read it, what its submission was
// answered: the job is accepted, and a script must not submit it again.
func (a Commands) printSubmitted(ctx context.Context, c *client.Client, done rota.Submitted) error {
	id := cmp.Or(done.Holder, done.ID)
	job, err := c.Job(ctx, id, client.AtLeast(done.Index))
	switch kind := rota.KindOf(err); {
	case kind == rota.KindDenied || kind == rota.KindNotFound:
		return a.PrintOne(done, []string{string(done.ID)}, func(bool) string {
			return cli.RenderFacts([]cli.Fact{{Name: "job", Value: done.ID}, {Name: "state", Value: done.State}})
		})
	case err != nil:
		return err
	}
	return a.Print(job)
}

// droppedPayload is the error of a submission that was merged into a job which did not take its payload.
func droppedPayload(id rota.JobID, merged rota.Merge) error {
	return rota.Refusef(rota.KindConflict, "unique",
		"job %s holds the unique key and did not accept the payload: %s; --unique-on-conflict after "+
			"submits a job that follows the holder", id, merged)
}

func (a Commands) submitOne(ctx context.Context, spec rota.JobSpec, wait bool) error {
	var id rota.JobID
	var merged rota.Merge
	err := a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
		outcomes, err := client.EachOutcome(c.Submit(ctx, spec)) // one refusal says it shorter
		if err == nil {
			err = outcomes[0].Err
		}
		if err != nil {
			return cli.AsSubmitted(err)
		}
		if id = outcomes[0].ID; outcomes[0].Holder != "" {
			id = outcomes[0].Holder
			a.Talk("merged into job %s, which holds the key", id)
		}
		merged = outcomes[0].Merge
		if outcomes[0].Throttle {
			a.Talk("%s", throttleHint)
		}
		if wait && !merged.Dropped() {
			return nil
		}
		return a.printSubmitted(ctx, c, outcomes[0])
	})(ctx, nil)
	if err == nil && merged.Dropped() {
		return cli.AsSubmitted(droppedPayload(id, merged))
	}
	if err != nil || !wait {
		return err
	}
	return a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
		ended, err := client.Collect(c.Wait(ctx, id))
		if err != nil && ctx.Err() == context.Canceled { // an interrupt is quiet, unless the id is not known yet
			if spec.Minted {
				a.Talk("job %s was submitted", id)
			}
			return err
		}
		if ctx.Err() == context.DeadlineExceeded || rota.KindOf(err) == rota.KindTimeout {
			return rota.Refusef(rota.KindTimeout, "wait", "job %s was submitted and had not ended after %s", id,
				a.Timeout)
		}
		if err != nil {
			a.Talk("job %s was submitted", id)
			return err
		}
		final := ended[0]
		if err := a.Print(final); err != nil {
			return err
		}
		return EndedWell([]rota.Job{final})
	})(ctx, nil)
}
