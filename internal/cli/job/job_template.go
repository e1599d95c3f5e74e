package job

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/jsonparts"
)

// TemplateFlags describe a job that is not submitted now: a schedule's run, or a batch's callback.
type TemplateFlags struct {
	job, queue, typ, tenant, payload string
	priority                         int32
	ttl, startBy, most               time.Duration
}

// Register defines the flags.
func (f *TemplateFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.job, "job", "",
		"the `job` in JSON, as a line of `job submit --file`, or @FILE; instead of the flags of a job")
	flags.StringVar(&f.queue, "queue", string(rota.DefaultQueue), "`queue` that the job waits in")
	flags.StringVar(&f.typ, "type", "", "handler `type` asked for")
	flags.StringVar(&f.tenant, "tenant", string(rota.DefaultTenant), "`tenant` that the job is of")
	flags.Int32Var(&f.priority, "priority", rota.DefaultPriority, "0 (critical) to 10 (background)")
	flags.StringVar(&f.payload, "payload", "", "payload: the `text` itself, @FILE, or - for stdin")
	cli.DurationVar(flags, &f.ttl, "ttl", 0, "expire the job this long after submission")
	cli.DurationVar(flags, &f.startBy, "start-by", 0,
		"expire the job unless it starts within this time of submission")
	cli.DurationVar(flags, &f.most, "max-runtime", 0, "end an attempt after this time, at least 3s")
	cli.Within(flags, 0, rota.MaxPriority, "priority")
	cli.Within(flags, 0, rota.MaxDuration, "ttl", "start-by")
	cli.WithinOrZero(flags, time.Duration(rota.MaxRuntimeLeast)*time.Millisecond, rota.MaxDuration, "max-runtime")
}

// Read makes the job that the flags describe.
func (f *TemplateFlags) Read(a *cli.App, flags *pflag.FlagSet) (rota.JobSpec, error) {
	if f.job == "" {
		if f.typ == "" {
			return rota.JobSpec{}, cli.Usagef("--type is missing: it selects the handler that runs the job")
		}
		payload, err := cli.ReadPayload(f.payload, a.Stdin)
		if err != nil {
			return rota.JobSpec{}, err
		}
		job := rota.NewJobSpec(rota.JobType(f.typ), payload)
		job.Queue, job.Tenant, job.Priority, job.TTL, job.MaxRuntime = rota.QueueName(f.queue), rota.TenantID(
			f.tenant), f.priority, f.ttl, f.most
		job.StartBy = f.startBy
		return job, nil
	}
	for _, name := range []string{"queue", "type", "tenant", "priority", "payload", "ttl", "start-by", "max-runtime"} {
		if flags.Changed(name) {
			return rota.JobSpec{}, cli.Usagef("--job does not allow --%s: set it in the job itself", name)
		}
	}
	text, err := cli.ReadPayload(f.job, a.Stdin)
	if err != nil {
		return rota.JobSpec{}, err
	}
	job := rota.JobSpec{Priority: rota.DefaultPriority, Queue: rota.DefaultQueue, Tenant: rota.DefaultTenant}
	if err := jsonparts.Read(text, &job, true); err != nil {
		return job, cli.Usagef("--job is not a job in JSON: %w", err)
	}
	return job, nil
}
