package job

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

func (a Commands) why() *cobra.Command {
	var at string
	cmd := a.Reads(&cobra.Command{
		Use:   "why ID [--at INDEX|MOMENT]",
		Short: "Show why a job does not run, or why it was placed on its worker",
		Example: `  rota job why nightly-7
  rota job why nightly-7 --at 48112 -o json
  rota job why nightly-7 --at 2026-11-25T15:04:05Z`,
		Args: cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			ids, err := IDs(args)
			if err != nil {
				return err
			}
			q := rota.WhyQuery{}
			if at != "" {
				if q, err = rota.ParsePast(at); err != nil {
					return cli.Usagef("--at: %v", err)
				}
			}
			if at != "" {
				a.saysReplay(ctx, c, q)
			}
			q.Others = true
			x, err := c.WhyAt(ctx, ids[0], q, a.Fresh()...)
			if err != nil {
				return err
			}
			a.Seen()
			if x.Reasons == nil {
				x.Reasons = []rota.Why{}
			}
			return a.PrintOne(x, []string{string(x.Job)}, func(wide bool) string { return WhyText(&x, wide) })
		})),
	})
	cmd.Flags().StringVar(&at, "at", "",
		"`moment` to look at: an index, as shown by job show and events, or a date in RFC 3339")
	return cmd
}

// saysReplay says how many entries a look at the past replays, as it takes seconds of a core for each 100,000.
// A node that does not say so is no reason not to look.
func (a Commands) saysReplay(ctx context.Context, c *client.Client, q rota.WhyQuery) {
	if past, err := c.Past(ctx, q); err == nil && past.Entries > 0 {
		fmt.Fprintf(a.Stderr, "replaying %d entries, from index %d to %d\n", past.Entries, past.From, past.Index)
	}
}

// WhyText is an explanation for people: what it is, what keeps it, what would let
// it run, or who decided what.
func WhyText(x *rota.Explanation, wide bool) string {
	facts := []cli.Fact{{Name: "job", Value: x.Job}, {Name: "state", Value: x.State},
		{Name: "index", Value: uint64(x.Index)}}
	if x.State == rota.JobQueued {
		facts = append(facts, cli.Fact{Name: "rank", Value: x.Rank}, cli.Fact{Name: "before it", Value: x.Before})
		if x.Score != nil {
			facts = append(facts, cli.Fact{Name: "score", Value: *x.Score})
		}
	}
	if x.State.Terminal() && len(x.Reasons) > 0 {
		facts = append(facts, cli.Fact{Name: "ended with", Value: x.Reasons[0].Reason})
	}
	text := cli.RenderFacts(facts)
	if len(x.Reasons) > 0 && !x.State.Terminal() {
		text += "\n" + cli.RenderList([]cli.Column[rota.Why]{
			{Head: "REASON", Cell: func(w rota.Why) any { return w.Reason }},
			{Head: "WORKERS", Cell: func(w rota.Why) any { return cli.OfSome(w.Workers, w.Workers) }},
			{Head: "WHICH", Most: 40, Cell: func(w rota.Why) any { return cli.Joined(w.WorkerIDs) }},
			{Head: "DETAIL", Cell: func(w rota.Why) any { return w.Detail }},
		}, x.Reasons, wide)
	}
	if len(x.WouldRun) > 0 {
		text += "\nit would run if\n  " + strings.Join(x.WouldRun, "\n  ") + "\n"
	}
	if x.Decision != nil {
		text += "\ndecision\n" + DecisionText(x.Decision)
	}
	return text
}

// DecisionText shows a placement decision for people.
func DecisionText(d *rota.PlacedDecision) string {
	text := cli.RenderFacts([]cli.Fact{{Name: "worker", Value: d.Worker}, {Name: "try", Value: d.Attempt + 1},
		{Name: "epoch", Value: d.Epoch},
		{Name: "height", Value: uint64(d.Height)}, {Name: "score", Value: d.Score}, {Name: "rank", Value: d.Rank},
		{Name: "reasoning", Value: reasoningText(d.Reasoning)}, {Name: "seed", Value: d.Seed}})
	if len(d.Others) > 0 {
		text += "\n" + cli.RenderList([]cli.Column[rota.OtherWorker]{
			{Head: "NOT CHOSEN", Cell: func(o rota.OtherWorker) any { return o.Worker }},
			{Head: "WHY", Cell: func(o rota.OtherWorker) any { return o.Reason }},
		}, d.Others, false)
	}
	if d.Note != "" {
		text += "\nnot chosen: " + cli.Clean(d.Note) + "\n"
	}
	return text
}

// reasoningText returns the rule with the figures that SPEC §7.7 gives it.
func reasoningText(r rota.Reasoning) string {
	rule := r.Rule.String()
	switch r.Rule {
	case rota.ReasoningByLeastLoaded:
		return fmt.Sprintf("%s: it had %s", rule, cli.Counted(r.N, "lease", "open"))
	case rota.ReasoningBySeededShuffle:
		return fmt.Sprintf("%s: place %d of %d, from 0", rule, r.N, r.Of)
	case rota.ReasoningByResourceFit:
		return fmt.Sprintf("%s: %d millicores free, %d wanted", rule, r.N, r.Of)
	case rota.ReasoningByDataLocality:
		return fmt.Sprintf("%s: it holds %s", rule, cli.Counted(r.N, "key", "of the job's data"))
	case rota.ReasoningByPreemption:
		return fmt.Sprintf("%s: it ended %s", rule, cli.Counted(r.N, "lease", "of background jobs"))
	case rota.ReasoningByRoundRobin:
		return fmt.Sprintf("%s: cursor %d", rule, r.N)
	default:
		if r.N == 0 && r.Of == 0 {
			return rule
		}
		return fmt.Sprintf("%s: %d, %d", rule, r.N, r.Of)
	}
}
