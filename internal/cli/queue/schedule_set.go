package queue

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
)

// scheduleFlags are the flags of `schedule set` as given.
type scheduleFlags struct {
	spec    rota.ScheduleSpec
	dates   []string
	overlap string
	job     job.TemplateFlags
}

func (a ScheduleCommands) set() *cobra.Command {
	f := &scheduleFlags{spec: rota.NewScheduleSpec("", rota.JobSpec{})}
	cmd := &cobra.Command{
		Use:   "set S (--cron EXPR [--tz ZONE] | --every D | --date D …) (--type T [--queue Q] [--payload P] | --job JSON) [flags]",
		Short: "Create or replace a schedule",
		Long: `Create or replace a schedule. Omitted settings get their defaults. Live and waiting runs stay,
and dates continue unless the times change.

--cron accepts five fields as in crontab(5), or six with seconds first, and @hourly, @daily,
@weekly, @monthly, @yearly.`,
		Example: `  rota schedule set nightly --cron "30 2 * * *" --tz Europe/Berlin --type report
  rota schedule set poll --every 5m --overlap skip --type poll --payload '{"feed":1}'`,
		Args: cobra.ExactArgs(1),
	}
	f.register(cmd.Flags())
	var how cli.SetFlags
	how.RegisterMatch(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		spec, err := f.read(a.App, args, cmd.Flags())
		if err != nil {
			return err
		}
		return a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := c.Schedules().Set(ctx, spec, how.Only())
			if err != nil {
				return err
			}
			return a.print(s)
		}))(cmd, args)
	}
	return cmd
}

func (f *scheduleFlags) register(flags *pflag.FlagSet) {
	s := &f.spec
	flags.StringVar(&s.Cron, "cron", "", "cron `expression`")
	flags.StringVar(&s.TZ, "tz", "", "time `zone` of --cron, such as Europe/Berlin (default: UTC)")
	cli.DurationVar(flags, &s.Every, "every", 0, "run once per this interval, at least 1s")
	flags.StringArrayVar(&f.dates, "date", nil, "run on this `date`; may be repeated, in order")
	flags.Var((*cli.DateValue)(&s.Start), "start", "first `date` on which it may run")
	flags.Var((*cli.DateValue)(&s.End), "end", "end `date`, from which on it no longer runs")
	flags.Int64Var(&s.Limit, "limit", 0, "end after this `number` of runs; 0 means no limit")
	cli.DurationVar(flags, &s.Jitter, "jitter", 0, "start each run up to so much later")
	flags.StringVar(&f.overlap, "overlap", "skip",
		"overlap `policy` for a date while a run is live: skip, queue_one, queue_all, cancel, allow")
	cli.DurationVar(flags, &s.CatchUp, "catch-up", s.CatchUp, "how late a date may still run, at least 10s")
	flags.Int64Var(&s.CatchUpMax, "catch-up-max", s.CatchUpMax,
		"maximum `number` of late dates that run, the newest ones, 0 to 100")
	flags.BoolVar(&s.PauseOnFailure, "pause-on-failure", false, "pause when a run ends DEAD or EXPIRED")
	f.job.Register(flags)
	cli.Within(flags, 0, rota.MaxCatchUp, "catch-up-max")
	cli.Within(flags, 0, int64(rota.MaxUnits), "limit")
	cli.Within(flags, 0, rota.MaxDuration, "jitter")
	cli.Within(flags, rota.LeastCatchUp, rota.MaxDuration, "catch-up")
	cli.WithinOrZero(flags, rota.LeastEvery, rota.MaxDuration, "every")
}

// read makes the schedule that the flags describe.
func (f *scheduleFlags) read(a *cli.App, args []string, flags *pflag.FlagSet) (rota.ScheduleSpec, error) {
	s := f.spec
	s.Name = rota.ScheduleName(args[0])
	if err := s.Overlap.UnmarshalText([]byte(f.overlap)); err != nil {
		return s, err
	}
	for _, text := range f.dates {
		var d rota.Date
		if err := (*cli.DateValue)(&d).Set(text); err != nil {
			return s, cli.Usagef("--date %q is not a date: %w", text, err)
		}
		s.Dates = append(s.Dates, d)
	}
	var err error
	if s.Job, err = f.job.Read(a, flags); err != nil {
		return s, err
	}
	err = s.CheckShape(rota.MaxPayloadBytes)
	return s, err
}
