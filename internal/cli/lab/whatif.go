package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/internal/foresight/whatif"
)

// whatIf is what the flags of `rota what-if` say.
type whatIf struct {
	from         string
	since, until rota.Date
	set, workers []string
	budgets      []string
	without      string
	backup       cli.BackupFlags
}

// WhatIfCommand replays a log under another policy; it needs no cluster.
func WhatIfCommand(a *cli.App) *cobra.Command {
	w := whatIf{}
	cmd := &cobra.Command{
		Use:   "what-if --from DATA|BACKUP [--since T] [--until T] --set QUEUE.key=value… | --set-budget NAME=LIMIT… | --workers +4xSPEC | --without-tenant T",
		Short: "Replay a recorded log under another policy, without a cluster",
		Long: `Replay a recorded log under another policy. Submissions, workers and their losses, cancels and
settings come as recorded. A job runs as long as it ran then, or without a recorded end for the median of its
type. Decisions are made again.

First the unchanged policy is replayed and compared with the record, decision by decision. Then
the changed policy is replayed up to its first other decision, and simulated from there. The
unchanged policy, simulated from the same moment, is the control: its deviation from the record
is the error of the method. Nothing is written.`,
		Example: `  rota what-if --from /var/lib/rota --set batch.ranking=shortest
  rota what-if --from nightly.rota --since 2026-11-24T08:00:00Z --workers +4xgpu-1 -o json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&w.from, "from", "",
		"data `directory` of a node that is stopped, or the file or s3://bucket/key of a backup")
	f.Var((*cli.DateValue)(&w.since), "since", "replay from this date on (default: all that is kept)")
	f.Var((*cli.DateValue)(&w.until), "until", "replay up to this date (default: to the end)")
	f.StringArrayVar(&w.set, "set", nil,
		"a `QUEUE.key=value` as in rota queue set, or QUEUE.preset=NAME; may be repeated")
	f.StringArrayVar(&w.budgets, "set-budget", nil,
		"another limit of a budget, `NAME=LIMIT`; may be repeated")
	f.StringArrayVar(&w.workers, "workers", nil,
		"add workers: `+4xSPEC`, SPEC being the id of a worker to copy, or slots=4,cpu_milli=8000,queues=a:b,…; may be repeated")
	f.StringVar(&w.without, "without-tenant", "", "omit the work of this `tenant`")
	w.backup.Register(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		change, err := w.change()
		if err != nil {
			return err
		}
		return a.Does(func(ctx context.Context, _ []string) error { return w.run(ctx, a, change) })(cmd, args)
	}
	return cmd
}

// change reads the flags.
func (w *whatIf) change() (c whatif.Change, err error) {
	switch {
	case w.from == "":
		return c, cli.Usagef("--from is missing: a stopped node's data directory, or a backup")
	case len(w.set)+len(w.workers)+len(w.budgets) == 0 && w.without == "":
		return c, cli.Usagef("nothing is changed: give --set, --set-budget, --workers or --without-tenant")
	case w.until != 0 && w.until <= w.since:
		return c, cli.Usagef("--until must be after --since (%[2]s), got %[1]s", w.until, w.since)
	}
	for _, text := range w.set {
		if err := c.ParseSet(text); err != nil {
			return c, cli.Usagef("--set: %w", err)
		}
	}
	for _, text := range w.budgets {
		if err := c.ParseBudget(text); err != nil {
			return c, cli.Usagef("--set-budget: %w", err)
		}
	}
	for _, text := range w.workers {
		if err := c.ParseWorkers(text); err != nil {
			return c, cli.Usagef("--workers: %w", err)
		}
	}
	if w.without != "" {
		c.Without = rota.TenantID(w.without)
		if err := rota.CheckID("tenant", c.Without); err != nil {
			return c, cli.Usagef("--without-tenant: %w", err)
		}
	}
	return c, nil
}

// open opens the log.
func (w *whatIf) open(ctx context.Context) (log *audit.Recorded, done func(), err error) {
	if at, err := os.Stat(w.from); err == nil && at.IsDir() && !depot.InBucket(w.from) {
		log, err := audit.OpenData(w.from)
		if err != nil {
			return nil, nil, cli.AsFailure(err)
		}
		return log, func() { _ = log.Close() }, nil
	}
	open, done, err := w.backup.Take(ctx, w.from)
	if err != nil {
		return nil, nil, err
	}
	if log, err = audit.OpenBackup(open); err != nil {
		done()
		return nil, nil, cli.AsFailure(err)
	}
	return log, done, nil
}

func (w *whatIf) run(ctx context.Context, a *cli.App, change whatif.Change) error {
	log, done, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	var over atomic.Int64
	total := 4 * int64(log.Last()-log.Base().Head().Index)
	shown := a.Watch("entries", total, over.Load)
	report, err := whatif.Run(ctx, &whatif.Plan{Log: log, Change: change, Since: w.since, Until: w.until,
		Progress: func(done int64) { over.Store(done) }})
	if err == nil {
		over.Store(total)
	}
	shown.Stop()
	partial := errors.Is(err, context.Canceled)
	if err != nil && !partial {
		return cli.AsFailure(fmt.Errorf("what-if: %w", err))
	}
	if err := a.PrintOne(report, []string{report.Control.Verdict()},
		func(bool) string { return renderWhatIf(report) }); err != nil || !partial {
		return err
	}
	a.Talk("what-if: interrupted: %d of 3 histories were finished", len(report.Histories))
	return cli.OutOfTime(ctx, ctx.Err())
}

// renderWhatIf shows a report to a person.
func renderWhatIf(r *whatif.Report) string {
	var b strings.Builder
	facts := []cli.Fact{{Name: "window", Value: fmt.Sprintf("%s to %s (index %d to %d)", r.Since, r.Until, r.From,
		r.To)}, {Name: "control", Value: controlText(r)}}
	if p := r.Parting; p != nil {
		facts = append(facts, cli.Fact{Name: "first difference", Value: fmt.Sprintf("index %d, %s", p.Index, p.Date)},
			cli.Fact{Name: "  in the record", Value: sideText(&p.Record)},
			cli.Fact{Name: "  what if", Value: sideText(&p.WhatIf)})
	} else if !r.Partial {
		facts = append(facts, cli.Fact{Name: "first difference", Value: "none: every decision is as it was"})
	}
	for i := range r.Histories {
		if h := &r.Histories[i]; i > 0 {
			facts = append(facts, cli.Fact{Name: h.Name, Value: fmt.Sprintf(
				"%d decisions, the first %d of them as recorded; %d attempts ran for the median of their type; %d operations were refused",
				h.Decisions, h.Common, h.Filled, h.Refused)})
		}
	}
	b.WriteString(cli.RenderFacts(facts))
	if r.Partial {
		b.WriteString("partial: interrupted\n")
	}
	b.WriteString("\n")
	b.WriteString(cli.RenderList(historyColumns(), historyRows(r), false))
	for _, moved := range []struct {
		head string
		list []whatif.Moved
	}{{"WINS", r.Winners}, {"LOSES", r.Losers}} {
		if len(moved.list) > 0 {
			b.WriteString("\n" + cli.RenderList(movedColumns(moved.head), moved.list, false))
		}
	}
	return b.String()
}

func controlText(r *whatif.Report) string {
	c := &r.Control
	switch d := c.Difference; {
	case d != nil:
		return fmt.Sprintf("%d of %d decisions as recorded before the first difference, at index %d: %s; replayed: %s",
			c.Equal, c.Decisions, d.Index, d.Record.What, d.WhatIf.What)
	case c.Verdict() == whatif.Equal:
		return fmt.Sprintf("all %d decisions as recorded", c.Decisions)
	default:
		return fmt.Sprintf("%d decisions as recorded so far", c.Equal)
	}
}

func sideText(s *whatif.Side) string {
	text := s.What
	var why struct {
		Reasoning struct{ Rule string }
		Rank      int64
	}
	if json.Unmarshal(s.Reasoning, &why) == nil {
		text += fmt.Sprintf(" (%s, rank %d)", why.Reasoning.Rule, why.Rank)
	}
	if s.Waits != "" {
		text += "; " + s.Waits
	}
	return text
}

// historyRow is a group of jobs in one of the histories.
type historyRow struct {
	history, of string
	whatif.Group
	utilisation string
}

// historyRows puts the histories side by side: all jobs, then queue by queue, then tenant by tenant.
func historyRows(r *whatif.Report) (rows []historyRow) {
	for i := range r.Histories {
		h := &r.Histories[i]
		rows = append(rows, historyRow{h.Name, "all", h.Group, decimal(h.Utilisation, 4)})
	}
	for _, kind := range []struct {
		name string
		of   func(*whatif.History) []whatif.Group
	}{{"queue", func(h *whatif.History) []whatif.Group { return h.Queues }}, {"tenant",
		func(h *whatif.History) []whatif.Group { return h.Tenants }}} {
		for _, name := range groupsOf(r, kind.of) {
			for i := range r.Histories {
				for _, g := range kind.of(&r.Histories[i]) {
					if g.Of == name {
						rows = append(rows, historyRow{r.Histories[i].Name, kind.name + " " + name, g, ""})
					}
				}
			}
		}
	}
	return rows
}

// groupsOf are the names of groups that any history has.
func groupsOf(r *whatif.Report, of func(*whatif.History) []whatif.Group) (names []string) {
	for i := range r.Histories {
		for _, g := range of(&r.Histories[i]) {
			names = append(names, g.Of)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func historyColumns() []cli.Column[historyRow] {
	return []cli.Column[historyRow]{
		{Head: "OF", Cell: func(r historyRow) any { return r.of }},
		{Head: "HISTORY", Cell: func(r historyRow) any { return r.history }},
		{Head: "JOBS", Cell: func(r historyRow) any { return r.Jobs }},
		{Head: "STARTED", Cell: func(r historyRow) any { return r.Started }},
		{Head: "AT WORK", Cell: func(r historyRow) any { return r.Working }},
		{Head: "WAITING", Cell: func(r historyRow) any { return r.Waiting }},
		{Head: "WAIT MEAN S", Cell: func(r historyRow) any { return decimal(r.WaitMeanS, 3) }},
		{Head: "WAIT P50 S", Cell: func(r historyRow) any { return decimal(r.WaitP50S, 3) }},
		{Head: "WAIT P95 S", Cell: func(r historyRow) any { return decimal(r.WaitP95S, 3) }},
		{Head: "WAIT MAX S", Cell: func(r historyRow) any { return decimal(r.WaitMaxS, 3) }},
		{Head: "IN TIME", Cell: func(r historyRow) any { return r.DeadlinesMet }},
		{Head: "EXPIRED", Cell: func(r historyRow) any { return r.DeadlinesMissed }},
		{Head: "UTILISATION", Cell: func(r historyRow) any { return r.utilisation }},
	}
}

func movedColumns(head string) []cli.Column[whatif.Moved] {
	return []cli.Column[whatif.Moved]{
		{Head: head, Cell: func(m whatif.Moved) any { return m.Job }},
		{Head: "QUEUE", Cell: func(m whatif.Moved) any { return m.Queue }},
		{Head: "TENANT", Cell: func(m whatif.Moved) any { return m.Tenant }},
		{Head: "WAIT CONTROL S", Cell: func(m whatif.Moved) any { return decimal(m.ControlS, 3) }},
		{Head: "WAIT WHAT-IF S", Cell: func(m whatif.Moved) any { return decimal(m.WhatIfS, 3) }},
	}
}
