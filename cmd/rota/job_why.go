package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

func (a *app) jobWhyCommand() *cobra.Command {
	var at uint64
	cmd := &cobra.Command{
		Use:   "why ID [--at INDEX]",
		Short: "Tell why a job does not run, or how it came to its worker; now, or at an index of the past",
		Example: `  rota job why nightly-7
  rota job why nightly-7 --at 48112 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := jobIDs(args)
			if err != nil {
				return err
			}
			x, err := c.Why(ctx, ids[0], rota.Index(at))
			if err != nil {
				return err
			}
			if x.Reasons == nil {
				x.Reasons = []rota.Why{}
			}
			return a.printOne(x, []string{string(x.Job)}, func(bool) string { return whyText(&x) })
		})),
	}
	cmd.Flags().Uint64Var(&at, "at", 0, "`index` of the past, as job show and events tell them; 0 is now")
	return cmd
}

// whyText is an explanation for people: what it is, what keeps it, what would let
// it run, or who decided what.
func whyText(x *rota.Explanation) string {
	facts := []fact{{"job", x.Job}, {"state", x.State}, {"index", uint64(x.Index)}}
	if x.State == rota.Queued {
		facts = append(facts, fact{"rank", x.Rank}, fact{"before it", x.Before})
	}
	text := renderFacts(facts)
	if len(x.Reasons) > 0 {
		var lines []string
		for _, w := range x.Reasons {
			line := w.Reason
			if w.Workers > 0 {
				line += fmt.Sprintf("  %d workers", w.Workers)
			}
			if w.Detail != "" {
				line += "  " + w.Detail
			}
			lines = append(lines, "  "+line)
		}
		text += "\nreasons\n" + strings.Join(lines, "\n") + "\n"
	}
	if len(x.WouldRun) > 0 {
		text += "\nit would run if\n  " + strings.Join(x.WouldRun, "\n  ") + "\n"
	}
	if x.Decision != nil {
		text += "\ndecision\n" + decisionText(x.Decision)
	}
	return text
}

func decisionText(d *rota.PlacedDecision) string {
	r := d.Reasoning
	rule := r.Rule.String()
	if r.N != 0 || r.Of != 0 {
		rule += fmt.Sprintf(" (%d, %d)", r.N, r.Of)
	}
	text := renderFacts([]fact{{"worker", d.Worker}, {"attempt", d.Attempt}, {"epoch", d.Epoch},
		{"height", uint64(d.Height)}, {"score", d.Score}, {"rank", d.Rank}, {"reasoning", rule}, {"seed", d.Seed}})
	for _, o := range d.Others {
		text += fmt.Sprintf("  not %s: %s\n", o.Worker, o.Reason)
	}
	if d.Note != "" {
		text += "  " + d.Note + "\n"
	}
	return text
}
