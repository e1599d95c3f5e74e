package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/cli"
)

// EventCommands are the commands of `rota events`.
type EventCommands struct{ *cli.App }

// Command returns `rota events` and the commands below it.
func (a EventCommands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "events", Short: "Show what happened in the cluster"},
		a.eventsTail())
}

// TailFlags are the flags of `events tail`.
type TailFlags struct {
	from, Job, actor, Since              string
	Queue, Typ, Tenant, Worker, Workflow string
	follow                               bool
	last                                 int
	kinds                                []string
}

// maxLast bounds --last: the events are held in memory until the newest is known.
const maxLast = 10_000

func (a EventCommands) eventsTail() *cobra.Command {
	f := &TailFlags{}
	cmd := &cobra.Command{
		Use:   "tail [--from ID | --since D] [-n N] [--follow] [--kind K]… [--job I] [--worker W]…",
		Short: "Print events in the order in which they happened",
		Long: `Print events in order, from the oldest retained to now. --follow continues until a signal (exit
130 or 143) or --timeout; if its node dies it continues at another --addr, without a gap or a
repeat. -o jsonl prints the same bytes from every node.`,
		Args: cobra.NoArgs,
		RunE: a.Does(func(ctx context.Context, _ []string) error {
			filter, err := f.Filter()
			if err != nil {
				return err
			}
			begin, err := f.Begin(time.Now())
			if err != nil {
				return err
			}
			out := NewEventPrinter(a.Output, a.Stdout, filter.Follow)
			err = a.Waiting(func(ctx context.Context, c *client.Client, _ []string) error {
				show := func(ctx context.Context, heard func()) error {
					return out.Print(Chosen(c.Events(ctx, filter), begin, f.last, &filter.After, heard), func() {})
				}
				if f.last > 0 && f.follow { // the last of what there is, then what comes
					filter.Follow = false
					if err := UntilSilent(ctx, a.Timeout, show); err != nil {
						return err
					}
					filter.Follow, f.last = true, 0
				}
				if filter.Follow || a.TimeoutSet {
					return show(ctx, func() {})
				}
				return UntilSilent(ctx, a.Timeout, show)
			})(ctx, nil)
			if err != nil && out.n == 0 && ctx.Err() == nil {
				return err // nothing was begun that wants an end
			}
			if end := out.End(); err == nil {
				err = end
			}
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "`id` of the event to begin after")
	flags.BoolVar(&f.follow, "follow", false, "stream further events")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only events of this `kind`, such as jobCompleted; may be repeated")
	flags.StringVar(&f.Job, "job", "", "only events about the job of this `id`; a workflow's node is WORKFLOW/NODE")
	flags.StringVar(&f.Since, "since", "", "begin at this `date`, or this long ago, such as 1h")
	flags.IntVarP(&f.last, "last", "n", 0,
		"`number` of newest events, up to 10000, 0 for all; --follow adds new ones")
	cli.WithinOrZero(flags, 1, maxLast, "last")
	flags.StringVar(&f.Queue, "queue", "", "only events about this `queue` and its jobs")
	flags.StringVar(&f.Typ, "type", "", "only events about jobs of this `type`")
	flags.StringVar(&f.Tenant, "tenant", "", "only events about this `tenant` and its jobs")
	flags.StringVar(&f.Worker, "worker", "", "only events about the worker of this `id`, and its leases")
	flags.StringVar(&f.Workflow, "workflow", "", "only events about the workflow of this `id`, and its nodes")
	flags.StringVar(&f.actor, "actor", "",
		"only changes requested by this `principal`, such as token:ID, or its browser sessions")
	return cmd
}

// Begin returns the date from which events are shown, 0 for all.
func (f *TailFlags) Begin(now time.Time) (rota.Date, error) {
	if f.Since == "" {
		return 0, nil
	}
	if f.from != "" {
		return 0, cli.Usagef("--since and --from exclude each other: set only one of them")
	}
	ago, err := rota.ParseDuration(f.Since)
	if err == nil && ago >= 0 && ago <= rota.MaxDuration {
		return rota.DateOf(now.Add(-ago)), nil
	}
	at, err := cli.ParseDate(f.Since)
	if err != nil {
		return 0, cli.Usagef("--since %q is neither a duration such as 1h or 1d12h, 87600h at most, nor %s", f.Since,
			cli.WantedDate)
	}
	return rota.DateOf(at), nil
}

// Chosen yields the events from a date on, of those only the last if last is not 0. It calls heard with each event that
// comes, and sets seen to it.
func Chosen(events iter.Seq2[rota.ServedEvent, error], begin rota.Date, last int, seen *rota.EventID,
	heard func()) iter.Seq2[rota.ServedEvent, error] {
	return func(yield func(rota.ServedEvent, error) bool) {
		var ring []rota.ServedEvent
		next := 0 // the place of the oldest once the ring is full
		for e, err := range events {
			if err != nil {
				yield(e, err)
				return
			}
			heard()
			*seen = e.ID
			switch {
			case e.Date < begin:
			case last == 0:
				if !yield(e, nil) {
					return
				}
			case len(ring) < last:
				ring = append(ring, e)
			default:
				ring[next] = e
				next = (next + 1) % last
			}
		}
		for i := range ring {
			if !yield(ring[(next+i)%len(ring)], nil) {
				return
			}
		}
	}
}

// UntilSilent runs a call that may take long as long as something is heard of it: one
// that nobody answers ends.
func UntilSilent(ctx context.Context, most time.Duration, call func(ctx context.Context, heard func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := rota.Refusef(rota.KindUnavailable, "events", "no node sent anything for %s", most)
	timer := time.AfterFunc(most, func() { cancel(silent) })
	defer timer.Stop()
	err := call(ctx, func() { timer.Reset(most) })
	if err != nil && context.Cause(ctx) == silent {
		return silent
	}
	return err
}

// Filter checks the flags before anybody is called.
func (f *TailFlags) Filter() (rota.EventFilter, error) {
	filter := rota.EventFilter{Follow: f.follow, Job: rota.JobID(f.Job), Actor: rota.Principal(f.actor),
		Queue: rota.QueueName(f.Queue), Type: rota.JobType(f.Typ), Tenant: rota.TenantID(f.Tenant),
		Worker: rota.WorkerID(f.Worker), Workflow: rota.WorkflowID(f.Workflow)}
	var err error
	if filter.After, err = rota.ParseEventID(f.from); err != nil {
		return filter, cli.Usagef("--from: %v", err)
	}
	if f.Job != "" {
		if err := rota.CheckJobRef("--job", filter.Job); err != nil {
			return filter, cli.Usagef("%v", err)
		}
	}
	for _, id := range [][2]string{{"--queue", f.Queue}, {"--type", f.Typ}, {"--tenant", f.Tenant},
		{"--worker", f.Worker}, {"--workflow", f.Workflow}} {
		if id[1] != "" {
			if err := rota.CheckID(id[0], id[1]); err != nil {
				return filter, cli.Usagef("%v", err)
			}
		}
	}
	if f.actor != "" {
		if err := access.CheckPrincipal(filter.Actor); err != nil {
			return filter, cli.Usagef("--actor: %v", err)
		}
	}
	for _, name := range f.kinds {
		var k rota.EventKind
		if err := k.UnmarshalText([]byte(name)); err != nil || k == rota.EventNone {
			return filter, cli.Or(err, error(cli.Usagef("--kind %q selects nothing: omit --kind for all", name)))
		}
		filter.Kinds = append(filter.Kinds, k)
	}
	return filter, nil
}

// eventPrinter prints events as they come; with follow each is out before the next is
// waited for.
type eventPrinter struct {
	format string
	follow bool
	w      *bufio.Writer
	n      int
}

// NewEventPrinter returns a printer of events in the format of -o.
func NewEventPrinter(format string, w io.Writer, follow bool) *eventPrinter {
	return &eventPrinter{format: format, follow: follow, w: bufio.NewWriterSize(w, 64<<10)}
}

// Print prints a listing, and calls heard with each event.
func (p *eventPrinter) Print(events iter.Seq2[rota.ServedEvent, error], heard func()) error {
	for e, err := range events {
		if err != nil {
			return errors.Join(err, p.w.Flush())
		}
		heard()
		if err := p.one(&e); err != nil {
			return err
		}
		if p.n++; p.follow {
			if err := p.w.Flush(); err != nil {
				return err
			}
		}
	}
	return p.w.Flush()
}

func (p *eventPrinter) one(e *rota.ServedEvent) error {
	switch p.format {
	case "jsonl":
		return cli.WriteJSON(p.w, e, "")
	case "json":
		open := ",\n    "
		if p.n == 0 {
			open = "{\n  \"events\": [\n    "
		}
		text, err := eventJSON(e)
		if err == nil {
			_, err = p.w.WriteString(open + text)
		}
		return err
	case "yaml":
		fmt.Fprintln(p.w, "---")
		return cli.WriteYAML(p.w, e)
	case "name":
		_, err := fmt.Fprintln(p.w, e.ID)
		return err
	default:
		return p.row(e)
	}
}

// eventJSON is one event as an element of a list, without a line's end.
func eventJSON(e *rota.ServedEvent) (string, error) {
	var text strings.Builder
	j := json.NewEncoder(&text)
	j.SetEscapeHTML(false)
	j.SetIndent("    ", "  ")
	if err := j.Encode(e); err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// subject names what an event is about: a job, else a workflow, a queue, a tenant, a
// worker or a node.
func subject(e *rota.ServedEvent) string {
	switch {
	case e.Job != "":
		return string(e.Job)
	case e.Run != "":
		return "workflow " + e.Run
	case e.Queue != "":
		return "queue " + string(e.Queue)
	case e.Tenant != "":
		return "tenant " + string(e.Tenant)
	case e.Worker != "":
		return "worker " + string(e.Worker)
	case e.Kind == rota.EventLeadershipBegan || e.Kind == rota.EventNodeChanged:
		return "node " + e.Text
	}
	return "cluster"
}

// row prints a line of fixed columns: a table that grows cannot wait for its
// widest cell.
func (p *eventPrinter) row(e *rota.ServedEvent) error {
	line := func(cells ...any) error {
		text := fmt.Sprintf("%-12v  %-24v  %-21v  %-28v  %-18v  %v", cells...)
		_, err := p.w.WriteString(strings.TrimRight(text, " ") + "\n")
		return err
	}
	if p.n == 0 {
		if err := line("EVENT", "DATE", "KIND", "ABOUT", "WORKER", "DETAIL"); err != nil {
			return err
		}
	}
	about, worker := subject(e), string(e.Worker)
	if about == "worker "+worker {
		worker = ""
	}
	return line(e.ID, e.Date.String(), e.Kind, cli.Clean(about), cli.Clean(worker), cli.Clean(p.detail(e, about)))
}

// detail is what an event says beyond its columns, in words; -o wide and JSON have the
// payload as it is.
func (p *eventPrinter) detail(e *rota.ServedEvent, about string) string {
	what := e.Text
	if about == "node "+what {
		what = ""
	}
	if e.Reason != rota.ReasonNone && e.Reason.String() != what {
		what = joinWords(e.Reason.String(), what)
	}
	switch {
	case p.format == "wide":
		what = joinWords(what, e.Payload)
	case what == "":
		what = payloadWords(e.Payload)
	}
	if e.Status != 0 {
		what = joinWords(e.Status.String(), what)
	}
	return what
}

// payloadWords returns a payload's figures as name=value, in their order; one that is no
// object is told as it is. What the columns have already is left out.
func payloadWords(payload string) string {
	d := json.NewDecoder(strings.NewReader(payload))
	d.UseNumber()
	var words []string
	name := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return strings.Join(words, " ")
		}
		if err != nil {
			return payload
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '[' {
				return payload
			}
			name = ""
		default:
			if name == "" {
				name = fmt.Sprint(t)
				continue
			}
			if name != "worker_id" {
				words = append(words, fmt.Sprintf("%s=%v", name, t))
			}
			name = ""
		}
	}
}

func joinWords(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}

// End closes what print left open.
func (p *eventPrinter) End() error {
	if p.format == "json" {
		if p.n == 0 {
			fmt.Fprint(p.w, "{\n  \"events\": [")
		}
		fmt.Fprint(p.w, "\n  ]\n}\n")
	}
	return p.w.Flush()
}
