package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

func (a Commands) logs() *cobra.Command {
	attempt := int32(-1)
	follow := false
	cmd := a.Reads(&cobra.Command{
		Use:   "logs ID [--attempt N] [-f]",
		Short: "Show the first and last lines that an attempt of a job logged",
		Long: `Show what an attempt of a job logged: the first 16 KiB of lines, the last 48, and how much was
cut between them. With worker run --exec the log is stderr. The log of a running attempt is a
few seconds behind; -f follows it until the attempt ends.`,
		Example: `  rota job logs nightly-7
  rota job logs nightly-7 --attempt 0
  rota job logs nightly-7 -f`,
		Args: cobra.ExactArgs(1),
	})
	cmd.Flags().Int32Var(&attempt, "attempt", attempt,
		"`number` of the attempt, 0 for the first (try 1 in job show), -1 for the newest")
	cli.Within(cmd.Flags(), -1, math.MaxInt32, "attempt")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "stream further output until the attempt ends")
	show := func(ctx context.Context, c *client.Client, args []string) error {
		ids, err := IDs(args)
		if err != nil {
			return err
		}
		of := rota.LogOf{Job: ids[0]}
		if attempt >= 0 {
			of.Attempt = &attempt
		}
		if follow {
			return a.followLog(ctx, c, of)
		}
		l, err := client.JobLog(ctx, c, of, a.Fresh()...)
		if err != nil {
			return err
		}
		a.Seen()
		return a.printLog(&l, 0)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if follow {
			return a.Does(a.Waiting(show))(cmd, args)
		}
		return a.Does(a.Calling(show))(cmd, args)
	}
	return cmd
}

// followLog prints what an attempt logs until it has ended.
func (a Commands) followLog(ctx context.Context, c *client.Client, of rota.LogOf) error {
	end := uint64(0)
	for l, err := range client.FollowLog(ctx, c, of, a.Fresh()...) {
		if errors.Is(err, context.Canceled) && end > 0 {
			return nil // a signal: what there is was printed
		}
		if err != nil {
			return err
		}
		if err := a.printLog(&l, end); err != nil {
			return err
		}
		if n := len(l.Parts); n > 0 {
			end = l.Parts[n-1].End()
		}
	}
	return nil
}

// printLog prints lines behind a place, and how much was cut between them.
func (a Commands) printLog(l *rota.AttemptLog, from uint64) error {
	if l.Parts == nil {
		l.Parts = []rota.LogPart{}
	}
	return a.PrintOne(l, []string{string(l.Job)}, func(bool) string { return LogText(l, from) })
}

// LogText shows the parts of a log from a byte on.
func LogText(l *rota.AttemptLog, from uint64) string {
	var b strings.Builder
	for i := range l.Parts {
		p := &l.Parts[i]
		if p.At > from {
			fmt.Fprintf(&b, "[%d bytes were cut, lines up to here: %d]\n", p.At-from, p.CutLines)
		}
		for line := range strings.Lines(string(p.Text)) {
			cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t") // tabs stay
			for i, c := range cells {
				cells[i] = cli.Clean(c)
			}
			b.WriteString(strings.Join(cells, "\t") + "\n")
		}
		from = p.End()
	}
	return b.String()
}
