package job

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/millis"
)

func (a Commands) eta() *cobra.Command {
	return a.Reads(&cobra.Command{
		Use:   "eta ID",
		Short: "Forecast when a job starts, and show what that depends on",
		Long: `Forecast when a job starts, or show why it cannot. At least 9 of 10 jobs start
within the interval. It needs no leader.`,
		Example: `  rota job eta nightly-7
  rota job eta nightly-7 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := IDs(args)
			if err != nil {
				return err
			}
			x, err := c.ETA(ctx, ids[0], a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			return a.PrintOne(x, []string{string(x.Job)}, func(bool) string { return etaText(&x) })
		})),
	})
}

// etaText is a forecast for people.
func etaText(x *rota.ETA) string {
	facts := []cli.Fact{{Name: "job", Value: x.Job}, {Name: "state", Value: x.State},
		{Name: "index", Value: uint64(x.Index)}, {Name: "started", Value: x.Started}}
	if x.Expected > 0 {
		facts = append(facts, cli.Fact{Name: "starts", Value: startText(x)}, cli.Fact{Name: "from", Value: x.Earliest},
			cli.Fact{Name: "to", Value: x.Latest})
	}
	text := cli.RenderFacts(facts)
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			text += "\n" + title + "\n  " + strings.Join(lines, "\n  ") + "\n"
		}
	}
	var hangs []string
	for _, h := range x.HangsOn {
		hangs = append(hangs, hangsText(h))
	}
	list("it depends on", hangs)
	if x.Expected == 0 && x.Started == 0 && !x.State.Terminal() {
		var reasons []string
		for _, w := range x.Reasons {
			reasons = append(reasons, strings.TrimSuffix(w.Reason+": "+cli.Clean(w.Detail), ": "))
		}
		text += "\nno date can be given\n"
		list("it is blocked by", reasons)
		list("it would run if", x.WouldRun)
	}
	list("calculated from", x.Basis)
	return text
}

// startText is when a job should start, and in how long from the state that was run ahead of.
func startText(x *rota.ETA) string {
	return fmt.Sprintf("%s, in %s", x.Expected, millis.Duration(int64(x.Expected-x.Date)).Round(time.Second))
}

// hangsText is what a job waits for, in words.
func hangsText(h rota.HangsOn) string {
	text := cli.Counted(h.Jobs, "job", "") + fmt.Sprintf(" of tenant %s", h.Tenant)
	switch {
	case h.Running && h.Worker != "":
		text += fmt.Sprintf(" on worker %s", h.Worker)
	case h.Running:
		text += " on the same worker"
	default:
		text += " that wait before it"
	}
	return text
}
