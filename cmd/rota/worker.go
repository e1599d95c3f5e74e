package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// workerCommands are the commands of workers: running one here, and seeing and changing all.
type workerCommands struct{ *app }

func (a workerCommands) command() *cobra.Command {
	return a.group(&cobra.Command{Use: "worker", Short: "Run workers and look after them"},
		a.runCommand(), a.list(), a.show(),
		a.one("drain", "Let a worker finish what it has and get nothing new", (*client.Client).DrainWorker),
		a.one("suspend", "Cancel a worker's leases and give it none until it is resumed", (*client.Client).SuspendWorker),
		a.one("resume", "Make a draining, suspended or jailed worker active again", (*client.Client).ResumeWorker),
		a.one("retire", "End a worker for good; its leases are cancelled", (*client.Client).RetireWorker),
		a.deletes("delete W", "Forget a worker that is retired, or unreachable, and has no lease", "worker delete gpu-7",
			func(ctx context.Context, c *client.Client, id string) error {
				return c.DeleteWorker(ctx, rota.WorkerID(id))
			}),
		a.attestCommand())
}

func (a workerCommands) list() *cobra.Command {
	var all bool
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers, RETIRED ones only if asked for",
		Args:  cobra.NoArgs,
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, _ []string) error {
			keep, err := workersKept(all, status)
			if err != nil {
				return err
			}
			workers, err := client.Collect(c.Workers(ctx, a.fresh()...))
			if err != nil {
				return err
			}
			a.seen()
			workers = slices.DeleteFunc(workers, func(w rota.Worker) bool { return !keep(w.Status) })
			return printAll(a.app, "workers", workers, func(w rota.Worker) string { return string(w.ID) }, workerColumns())
		})),
	}
	cmd.Flags().BoolVar(&all, "all", false, "RETIRED workers too")
	cmd.Flags().StringVar(&status, "status", "", "only those of this `status`, such as RETIRED")
	return a.listCommand(cmd)
}

// workersKept says which statuses a list shows: those asked for, or all but RETIRED.
func workersKept(all bool, status string) (func(rota.WorkerStatus) bool, error) {
	if status == "" {
		return func(s rota.WorkerStatus) bool { return all || s != rota.WorkerRetired }, nil
	}
	var wanted rota.WorkerStatus
	if err := wanted.UnmarshalText([]byte(strings.ToUpper(status))); err != nil || wanted == rota.WorkerNone {
		return nil, usagef("--status %q is refused: ACTIVE, DRAINING, SUSPENDED, JAILED, RETIRED or UNREACHABLE is wanted", status)
	}
	return func(s rota.WorkerStatus) bool { return s == wanted }, nil
}

func workerColumns() []column[rota.Worker] {
	return []column[rota.Worker]{
		{"ID", false, 0, func(w rota.Worker) any { return w.ID }},
		{"STATUS", false, 0, func(w rota.Worker) any { return w.Status }},
		{"QUEUES", false, 16, func(w rota.Worker) any { return joined(w.Queues) }},
		{"SLOTS", false, 0, func(w rota.Worker) any { return w.Slots }},
		{"PREFETCH", true, 0, func(w rota.Worker) any { return w.Prefetch }},
		{"OPEN", false, 0, func(w rota.Worker) any { return w.Open }},
		{"LOAD", false, 0, func(w rota.Worker) any { return w.Load }},
		{"HEALTH", false, 0, func(w rota.Worker) any { return w.Health }},
		{"COMPLETED", false, 0, func(w rota.Worker) any { return w.Completed }},
		{"FAILED", false, 0, func(w rota.Worker) any { return w.Failed }},
		{"REGION", true, 0, func(w rota.Worker) any { return w.Region }},
		{"ZONE", true, 0, func(w rota.Worker) any { return w.Zone }},
		{"TYPES", true, 0, func(w rota.Worker) any { return typesText(w.Types) }},
		{"CAPABILITIES", true, 0, func(w rota.Worker) any { return joined(w.Capabilities) }},
		{"CPU", true, 0, func(w rota.Worker) any { return orNone(w.CPUMilli) }},
		{"CPU TAKEN", true, 0, func(w rota.Worker) any { return ofSome(w.CPUMilliTaken, w.CPUMilli) }},
		{"MEMORY", true, 0, func(w rota.Worker) any { return orNone(w.MemoryBytes) }},
		{"MEMORY TAKEN", true, 0, func(w rota.Worker) any { return ofSome(w.MemoryTaken, w.MemoryBytes) }},
		{"IO", true, 0, func(w rota.Worker) any { return orNone(w.IOBytesPerS) }},
		{"IO TAKEN", true, 0, func(w rota.Worker) any { return ofSome(w.IOTaken, w.IOBytesPerS) }},
		{"LIMITS", true, 0, func(w rota.Worker) any { return limitsText(w.Limits) }},
		{"STAKE LEFT", true, 0, func(w rota.Worker) any { return ofSome(w.StakeLeft(), w.AttestedStake) }},
		{"BARRED TYPES", true, 0, func(w rota.Worker) any { return len(w.Cooling) + len(w.Denied) }},
		{"ATTESTED UNTIL", true, 0, func(w rota.Worker) any { return w.AttestedUntil }},
		{"SESSION", true, 0, func(w rota.Worker) any { return uint64(w.Session) }},
	}
}

func (a workerCommands) show() *cobra.Command {
	return a.reads(a.one("show", "Show one worker with its open leases",
		func(c *client.Client, ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
			w, err := c.Worker(ctx, id, a.fresh()...)
			if err == nil {
				a.seen()
			}
			return w, err
		}))
}

// one is a command that does something with one worker and prints it; ask has the form of
// the client's own methods.
func (a workerCommands) one(verb, short string,
	ask func(*client.Client, context.Context, rota.WorkerID) (rota.Worker, error),
) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " ID",
		Short:   short,
		Example: "  rota worker " + verb + " gpu-7",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(a.calling(func(ctx context.Context, c *client.Client, args []string) error {
			id := rota.WorkerID(args[0])
			if err := rota.CheckID("worker", id); err != nil {
				return err
			}
			w, err := ask(c, ctx, id)
			if err != nil {
				return err
			}
			return a.printOne(w, []string{string(w.ID)}, func(wide bool) string { return workerTable(w, wide) })
		})),
	}
}

// ofSome shows an amount where there is something that it is a part of.
func ofSome(part, whole int64) any {
	if whole == 0 {
		return nil
	}
	return part
}

// standingFacts tell what a worker's deeds brought it (SPEC §6.2).
func standingFacts(w rota.Worker) []fact {
	barred := func(list []rota.TypeUntil) string {
		texts := make([]string, len(list))
		for i, t := range list {
			texts[i] = fmt.Sprintf("%s until %s after %s", t.Type, t.Until.Date, t.Cause)
		}
		return strings.Join(texts, ", ")
	}
	facts := []fact{
		{"load", w.Load}, {"disconnected since", w.DisconnectedSince.Date}, {"jailed until", w.JailedUntil.Date},
		{"types cooling down", barred(w.Cooling)}, {"types denied", barred(w.Denied)},
		{"attested until", w.AttestedUntil}, {"limits", limitsText(w.Limits)},
	}
	if w.Stake > 0 {
		facts = append(facts, fact{"stake declared", w.Stake})
	}
	if w.AttestedStake > 0 || w.Slashed > 0 {
		facts = append(facts, fact{"stake attested", w.AttestedStake}, fact{"slashed", w.Slashed},
			fact{"stake left", w.StakeLeft()})
	}
	if w.InvalidProofs > 0 {
		facts = append(facts, fact{"invalid proofs", w.InvalidProofs})
	}
	for _, u := range w.Units {
		facts = append(facts, fact{"units of " + string(u.Queue), u.Used})
	}
	return facts
}

// typesText are the types that a worker handles.
func typesText(types []rota.JobType) string {
	if len(types) == 0 {
		return "every type"
	}
	return joined(types)
}

// offersText says how many more leases a worker takes that has no stream; nothing of one that has.
func offersText(w rota.Worker) string {
	if !w.Polls {
		return ""
	}
	return fmt.Sprintf("%d, as it polls over HTTP", w.Offered)
}

func workerTable(w rota.Worker, wide bool) string {
	facts := []fact{
		{"worker", w.ID}, {"status", w.Status}, {"queues", joined(w.Queues)}, {"types", typesText(w.Types)}, {"slots", w.Slots}, {"prefetch",
			w.Prefetch},
		{"open leases", w.Open}, {"offers", offersText(w)}, {"health", w.Health}, {"region", w.Region}, {"zone", w.Zone},
		{"capabilities", joined(w.Capabilities)}, {"cpu milli", orNone(w.CPUMilli)},
		{"cpu milli taken", ofSome(w.CPUMilliTaken, w.CPUMilli)}, {"memory bytes", orNone(w.MemoryBytes)},
		{"memory bytes taken", ofSome(w.MemoryTaken, w.MemoryBytes)}, {"io bytes per s", orNone(w.IOBytesPerS)},
		{"io bytes per s taken", ofSome(w.IOTaken, w.IOBytesPerS)}, {"session", uint64(w.Session)},
		{"assigned total", w.Assigned}, {"completed total", w.Completed}, {"failed total", w.Failed},
	}
	text := renderFacts(append(facts, standingFacts(w)...))
	if len(w.Leases) == 0 {
		return text
	}
	return text + "\n" + renderList([]column[rota.Lease]{
		{"JOB", false, 0, func(l rota.Lease) any { return l.Job }},
		{"STATE", false, 0, func(l rota.Lease) any { return l.State }},
		{"TRY", false, 0, func(l rota.Lease) any { return l.Attempt + 1 }},
		{"RENEWALS", false, 0, func(l rota.Lease) any { return l.Renewals }},
		{"TOKEN", false, 0, func(l rota.Lease) any { return l.Token }},
		{"REVOKED", false, 0, func(l rota.Lease) any { return reasonText(l.Revoked) }},
		{"LEASE", true, 0, func(l rota.Lease) any { return l.ID }},
	}, w.Leases, wide)
}
