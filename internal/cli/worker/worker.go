package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
)

// Commands are the commands of workers: running one here, and seeing and changing all.
type Commands struct{ *cli.App }

// Command returns `rota worker` and the commands below it.
func (a Commands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "worker", Short: "Run and manage workers"},
		a.runCommand(), a.List(), a.show(),
		a.one("drain", "Let a worker finish its jobs and get no new ones", (*client.Client).DrainWorker),
		a.one("suspend", "Cancel a worker's leases and give it none until it is resumed",
			(*client.Client).SuspendWorker),
		a.one("resume", "Make a draining, suspended or jailed worker active again", (*client.Client).ResumeWorker),
		a.one("retire", "Retire a worker permanently; its leases are cancelled", (*client.Client).RetireWorker),
		a.Deletes("delete W", "Delete a worker that is retired or unreachable, and has no lease",
			"worker delete gpu-7",
			func(ctx context.Context, c *client.Client, id string) error {
				return c.DeleteWorker(ctx, rota.WorkerID(id))
			}),
		a.attestCommand())
}

// List returns `rota worker list`.
func (a Commands) List() *cobra.Command {
	var all bool
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers",
		Args:  cobra.NoArgs,
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			keep, err := WorkersKept(all, status)
			if err != nil {
				return err
			}
			workers, err := client.Collect(c.Workers(ctx, a.Fresh()...))
			if err != nil {
				return err
			}
			a.Seen()
			workers = slices.DeleteFunc(workers, func(w rota.Worker) bool { return !keep(w.Status) })
			return cli.PrintAll(a.App, "workers", workers, func(w rota.Worker) string { return string(w.ID) },
				workerColumns())
		})),
	}
	cmd.Flags().BoolVar(&all, "all", false, "RETIRED workers too")
	cmd.Flags().StringVar(&status, "status", "", "only those of this `status`, such as RETIRED")
	return a.ListCommand(cmd)
}

// WorkersKept says which statuses a list shows: those asked for, or all but RETIRED.
func WorkersKept(all bool, status string) (func(rota.WorkerStatus) bool, error) {
	if status == "" {
		return func(s rota.WorkerStatus) bool { return all || s != rota.WorkerRetired }, nil
	}
	var wanted rota.WorkerStatus
	if err := wanted.UnmarshalText([]byte(strings.ToUpper(status))); err != nil || wanted == rota.WorkerNone {
		return nil, cli.Usagef(
			"--status must be one of ACTIVE, DRAINING, SUSPENDED, JAILED, RETIRED, UNREACHABLE, got %q", status)
	}
	return func(s rota.WorkerStatus) bool { return s == wanted }, nil
}

func workerColumns() []cli.Column[rota.Worker] {
	return []cli.Column[rota.Worker]{
		{Head: "ID", Cell: func(w rota.Worker) any { return w.ID }},
		{Head: "STATUS", Cell: func(w rota.Worker) any { return w.Status }},
		{Head: "QUEUES", Most: 16, Cell: func(w rota.Worker) any { return cli.Joined(w.Queues) }},
		{Head: "SLOTS", Cell: func(w rota.Worker) any { return w.Slots }},
		{Head: "PREFETCH", Wide: true, Cell: func(w rota.Worker) any { return w.Prefetch }},
		{Head: "LEASES", Cell: func(w rota.Worker) any { return w.Open }},
		{Head: "LOAD", Cell: func(w rota.Worker) any { return w.Load }},
		{Head: "HEALTH", Cell: func(w rota.Worker) any { return w.Health }},
		{Head: "COMPLETED", Cell: func(w rota.Worker) any { return w.Completed }},
		{Head: "FAILED", Cell: func(w rota.Worker) any { return w.Failed }},
		{Head: "REGION", Wide: true, Cell: func(w rota.Worker) any { return w.Region }},
		{Head: "ZONE", Wide: true, Cell: func(w rota.Worker) any { return w.Zone }},
		{Head: "TYPES", Wide: true, Cell: func(w rota.Worker) any { return typesText(w.Types) }},
		{Head: "CAPABILITIES", Wide: true, Cell: func(w rota.Worker) any { return cli.Joined(w.Capabilities) }},
		{Head: "CPU", Wide: true, Cell: func(w rota.Worker) any { return cli.OrNone(w.CPUMilli) }},
		{Head: "CPU TAKEN", Wide: true, Cell: func(w rota.Worker) any {
			return cli.OfSome(w.CPUMilliTaken, w.CPUMilli)
		}},
		{Head: "MEMORY", Wide: true, Cell: func(w rota.Worker) any { return cli.OrNone(w.MemoryBytes) }},
		{Head: "MEMORY TAKEN", Wide: true, Cell: func(w rota.Worker) any {
			return cli.OfSome(w.MemoryTaken, w.MemoryBytes)
		}},
		{Head: "IO", Wide: true, Cell: func(w rota.Worker) any { return cli.OrNone(w.IOBytesPerS) }},
		{Head: "IO TAKEN", Wide: true, Cell: func(w rota.Worker) any { return cli.OfSome(w.IOTaken, w.IOBytesPerS) }},
		{Head: "LIMITS", Wide: true, Cell: func(w rota.Worker) any { return cli.LimitsText(w.Limits) }},
		{Head: "STAKE LEFT", Wide: true, Cell: func(w rota.Worker) any {
			return cli.OfSome(w.StakeLeft(), w.AttestedStake)
		}},
		{Head: "BARRED TYPES", Wide: true, Cell: func(w rota.Worker) any { return len(w.Cooling) + len(w.Denied) }},
		{Head: "ATTESTED UNTIL", Wide: true, Cell: func(w rota.Worker) any { return w.AttestedUntil }},
		{Head: "SESSION", Wide: true, Cell: func(w rota.Worker) any { return uint64(w.Session) }},
	}
}

func (a Commands) show() *cobra.Command {
	return a.Reads(a.one("show", "Show one worker with its open leases",
		func(c *client.Client, ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
			w, err := c.Worker(ctx, id, a.Fresh()...)
			if err == nil {
				a.Seen()
			}
			return w, err
		}))
}

// one is a command that does something with one worker and prints it; ask has the form of
// the client's own methods.
func (a Commands) one(verb, short string,
	ask func(*client.Client, context.Context, rota.WorkerID) (rota.Worker, error),
) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  rota worker " + verb + " gpu-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.Does(a.Calling(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.WorkerID(args[0])
			if err := rota.CheckID("worker", id); err != nil {
				return err
			}
			w, err := ask(c, ctx, id)
			if err != nil {
				return err
			}
			return a.PrintOne(w, []string{string(w.ID)}, func(wide bool) string { return Table(w, wide) })
		})),
	}
}

// standingFacts tell what a worker's deeds brought it (SPEC §6.2).
func standingFacts(w rota.Worker) []cli.Fact {
	barred := func(list []rota.TypeUntil) string {
		texts := make([]string, len(list))
		for i, t := range list {
			texts[i] = fmt.Sprintf("%s until %s after %s", t.Type, t.Until.Date, t.Cause)
		}
		return strings.Join(texts, ", ")
	}
	facts := []cli.Fact{
		{Name: "load", Value: w.Load}, {Name: "disconnected since", Value: w.DisconnectedSince.Date},
		{Name: "jailed until", Value: w.JailedUntil.Date},
		{Name: "types cooling down", Value: barred(w.Cooling)}, {Name: "types denied", Value: barred(w.Denied)},
		{Name: "attested until", Value: w.AttestedUntil}, {Name: "limits", Value: cli.LimitsText(w.Limits)},
	}
	if w.Stake > 0 {
		facts = append(facts, cli.Fact{Name: "stake declared", Value: w.Stake})
	}
	if w.AttestedStake > 0 || w.Slashed > 0 {
		facts = append(facts, cli.Fact{Name: "stake attested", Value: w.AttestedStake},
			cli.Fact{Name: "slashed", Value: w.Slashed}, cli.Fact{Name: "stake left", Value: w.StakeLeft()})
	}
	if w.InvalidProofs > 0 {
		facts = append(facts, cli.Fact{Name: "invalid proofs", Value: w.InvalidProofs})
	}
	for _, u := range w.Units {
		facts = append(facts, cli.Fact{Name: "units of " + string(u.Queue), Value: u.Used})
	}
	return facts
}

// typesText are the types that a worker handles.
func typesText(types []rota.JobType) string {
	if len(types) == 0 {
		return "every type"
	}
	return cli.Joined(types)
}

// offersText says how many more leases a worker takes that has no stream; nothing of one that has.
func offersText(w rota.Worker) string {
	if !w.Polls {
		return ""
	}
	return fmt.Sprintf("%d, as it polls over HTTP", w.Offered)
}

// Table shows one worker for people.
func Table(w rota.Worker, wide bool) string {
	facts := []cli.Fact{
		{Name: "worker", Value: w.ID}, {Name: "status", Value: w.Status}, {Name: "queues", Value: cli.Joined(w.Queues)},
		{Name: "types", Value: typesText(w.Types)}, {Name: "slots", Value: w.Slots}, {Name: "prefetch",
			Value: w.Prefetch},
		{Name: "open leases", Value: w.Open}, {Name: "offers", Value: offersText(w)}, {Name: "health", Value: w.Health},
		{Name: "region", Value: w.Region}, {Name: "zone", Value: w.Zone},
		{Name: "capabilities", Value: cli.Joined(w.Capabilities)}, {Name: "cpu milli", Value: cli.OrNone(w.CPUMilli)},
		{Name: "cpu milli taken", Value: cli.OfSome(w.CPUMilliTaken, w.CPUMilli)},
		{Name: "memory bytes", Value: cli.OrNone(w.MemoryBytes)},
		{Name: "memory bytes taken", Value: cli.OfSome(w.MemoryTaken, w.MemoryBytes)},
		{Name: "io bytes per s", Value: cli.OrNone(w.IOBytesPerS)},
		{Name: "io bytes per s taken", Value: cli.OfSome(w.IOTaken, w.IOBytesPerS)},
		{Name: "session", Value: uint64(w.Session)},
		{Name: "assigned total", Value: w.Assigned}, {Name: "completed total", Value: w.Completed},
		{Name: "failed total", Value: w.Failed},
	}
	text := cli.RenderFacts(append(facts, standingFacts(w)...))
	if len(w.Leases) == 0 {
		return text
	}
	return text + "\n" + cli.RenderList([]cli.Column[rota.Lease]{
		{Head: "JOB", Cell: func(l rota.Lease) any { return l.Job }},
		{Head: "STATE", Cell: func(l rota.Lease) any { return l.State }},
		{Head: "TRY", Cell: func(l rota.Lease) any { return l.Attempt + 1 }},
		{Head: "RENEWALS", Cell: func(l rota.Lease) any { return l.Renewals }},
		{Head: "TOKEN", Cell: func(l rota.Lease) any { return l.Token }},
		{Head: "REVOKED", Cell: func(l rota.Lease) any { return cli.ReasonText(l.Revoked) }},
		{Head: "LEASE", Wide: true, Cell: func(l rota.Lease) any { return l.ID }},
	}, w.Leases, wide)
}
