package job

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/flowfile"
)

// jobExport is what the flags of `rota job export` say.
type jobExport struct {
	queue, state, tenant, typ, where string
	from, to                         string
	live                             bool
	backup                           cli.BackupFlags
}

func (a Commands) export() *cobra.Command {
	var x jobExport
	cmd := &cobra.Command{
		Use:   "export [--from DATA|BACKUP] [--to FILE]",
		Short: "Write ended jobs with their times, for rota simulate",
		Long: `Write the jobs that ran and have ended, oldest first, one JSON object a line, with the API's
field names: what a decision on a job depends on, and

  submit_ms   when it first waited for a worker, in ms since 1970
  start_ms    when its last attempt began
  run_ms      how long that attempt ran
  state       how it ended
  spent       what it used of its costs

--live adds pending and running jobs, without run_ms. Payloads, labels, headers, unique keys,
dates and batches are left out. The jobs are those that the caller may read, or with --from
those of a stopped node or a backup.`,
		Example: `  rota job export --to jobs.jsonl.gz && rota simulate jobs.jsonl.gz --procs 64
  rota job export --from nightly.rota --filter 'queue=batch age<7d' > week.jsonl`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&x.queue, "queue", "", "only this `queue`'s")
	flags.StringVar(&x.state, "state", "", "only those in this `state`")
	flags.StringVar(&x.tenant, "tenant", "", "only this `tenant`'s")
	flags.StringVar(&x.typ, "type", "", "only those of this `type`")
	flags.StringVar(&x.where, "filter", "", "only those that match all of these `terms` (rota job list --help)")
	flags.BoolVar(&x.live, "live", false, "include pending and running jobs")
	flags.StringVar(&x.from, "from", "",
		"read a stopped node's data `directory`, or the file or s3://bucket/key of a backup, instead of a cluster")
	flags.StringVar(&x.to, "to", "",
		"new `FILE` to write, gzip'd if it ends in .gz (default: stdout)")
	x.backup.Register(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := x.filter()
		if err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, _ []string) error { return x.run(ctx, a.App, filter) })(cmd, args)
	}
	return a.Reads(cmd)
}

// filter reads the flags.
func (x *jobExport) filter() (rota.JobFilter, error) {
	f := rota.JobFilter{Queue: rota.QueueName(x.queue), Tenant: rota.TenantID(x.tenant), Type: rota.JobType(x.typ),
		Where: x.where}
	if err := parseState(&f.State, x.state); err != nil {
		return f, err
	}
	switch {
	case x.live:
	case f.State == rota.JobNone:
		f.Where = strings.TrimSpace(f.Where + " state=COMPLETED,DEAD,EXPIRED,CANCELLED")
	case !f.State.Terminal():
		return f, cli.Usagef("--state %s selects jobs that have not ended: give --live too", f.State)
	}
	return f, nil
}

func (x *jobExport) run(ctx context.Context, a *cli.App, filter rota.JobFilter) error {
	if _, err := os.Lstat(x.to); x.to != "" && err == nil { // before all the jobs are read
		return x.taken()
	}
	if x.from == "" {
		return a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
			n, err := x.write(ctx, a, c.Jobs(ctx, filter, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			return a.KnownQueue(ctx, c, x.queue, n)
		})(ctx, nil)
	}
	jobs, done, err := x.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err := x.write(ctx, a, jobs.All(filter)); err != nil {
		return err
	}
	if jobs.Damaged > 0 {
		return cli.Failf(
			"export: %d records of the archive are damaged, and their jobs left out: export from another node",
			jobs.Damaged)
	}
	return nil
}

// open opens what --from names.
func (x *jobExport) open(ctx context.Context) (jobs *recovery.Jobs, done func(), err error) {
	if at, err := os.Stat(x.from); err == nil && at.IsDir() && !depot.InBucket(x.from) {
		jobs, err := recovery.OpenJobs(ctx, x.from)
		if err != nil {
			return nil, nil, cli.AsFailure(err)
		}
		return jobs, func() { _ = jobs.Close() }, nil
	}
	open, copied, err := x.backup.Take(ctx, x.from)
	if err != nil {
		return nil, nil, err
	}
	if jobs, err = recovery.OpenBackupJobs(open); err != nil {
		copied()
		return nil, nil, cli.AsFailure(err)
	}
	return jobs, func() { _ = jobs.Close(); copied() }, nil
}

// write writes the jobs in the order in which they came, and says how many, and what was left out.
func (x *jobExport) write(ctx context.Context, a *cli.App, jobs iter.Seq2[rota.Job, error]) (n int, err error) {
	var sorted flowfile.Sorter
	defer func() { err = errors.Join(err, sorted.Close()) }()
	var reasons []string
	left := make(map[string]int)
	for j, err := range jobs {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, cli.OutOfTime(ctx, err)
		}
		line, submit, why := flowfile.TimedLine(&j)
		if why != "" {
			if left[why]++; left[why] == 1 {
				reasons = append(reasons, why)
			}
			continue
		}
		if err := sorted.Add(submit, cli.EscapeControls(line)); err != nil {
			return 0, cli.Failf("export: %w", err)
		}
		n++
	}
	if err := x.put(a, &sorted); err != nil {
		return 0, err
	}
	a.Talk("%d jobs exported", n)
	slices.Sort(reasons)
	for _, why := range reasons {
		a.Talk("%d jobs left out: %s", left[why], why)
	}
	return n, nil
}

// taken refuses to write over a file.
func (x *jobExport) taken() error {
	return cli.Usagef("--to: %s is there already: remove it, or name another", x.to)
}

// put writes the lines to where they go. A file is there whole or not at all.
func (x *jobExport) put(a *cli.App, lines io.WriterTo) (err error) {
	if x.to == "" {
		_, err := lines.WriteTo(a.Stdout)
		return err
	}
	file, err := os.OpenFile(x.to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return x.taken()
	}
	if err != nil {
		return cli.Usagef("--to: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = cli.Failf("write --to: %w", errors.Join(err, os.Remove(x.to)))
		}
	}()
	if !strings.HasSuffix(x.to, ".gz") {
		_, err = lines.WriteTo(file)
		return err
	}
	z := gzip.NewWriter(file)
	_, err = lines.WriteTo(z)
	return errors.Join(err, z.Close())
}
