package job

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
)

// Commands are the commands of jobs.
type Commands struct{ *cli.App }

// Command returns `rota job` and the commands below it.
func (a Commands) Command() *cobra.Command {
	return a.Group(&cobra.Command{Use: "job", Short: "Submit and manage jobs"},
		a.Submit(), a.show(), a.List(), a.export(), a.wait(),
		a.alter(), a.cancel(), a.interrupt(), a.runNow(), a.retry(), a.delete(), a.reject(), a.why(), a.eta(), a.logs())
}

// IDs checks ids given as arguments and drops repeated ones. A workflow's node is
// named WORKFLOW/NODE.
func IDs(args []string) ([]rota.JobID, error) {
	var ids []rota.JobID
	seen := make(map[string]bool, len(args))
	for _, arg := range args {
		if seen[arg] {
			continue
		}
		seen[arg] = true
		id := rota.JobID(arg)
		if err := rota.CheckJobRef("job", id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Name is what -o name prints of a job.
func Name(j rota.Job) string { return string(j.ID) }

// Columns are the columns of a list of jobs.
func Columns() []cli.Column[rota.Job] {
	return []cli.Column[rota.Job]{
		{Head: "ID", Cell: func(j rota.Job) any { return j.ID }},
		{Head: "STATE", Cell: func(j rota.Job) any { return j.State }},
		{Head: "QUEUE", Most: 12, Cell: func(j rota.Job) any { return j.Queue }},
		{Head: "TYPE", Most: 14, Cell: func(j rota.Job) any { return j.Type }},
		{Head: "TENANT", Wide: true, Cell: func(j rota.Job) any { return j.Tenant }},
		{Head: "PRI", Cell: func(j rota.Job) any { return j.Priority }},
		{Head: "TRY", Cell: func(j rota.Job) any { return j.Attempt + 1 }},
		{Head: "SUBMITTED", Cell: func(j rota.Job) any { return j.Submitted.Date }},
		{Head: "FINISHED", Wide: true, Cell: func(j rota.Job) any { return j.Finished.Date }},
		{Head: "WORKER", Wide: true, Cell: func(j rota.Job) any { return lastWorker(j) }},
		{Head: "REASON", Wide: true, Cell: func(j rota.Job) any { return cli.ReasonText(j.Reason) }},
		{Head: "ERROR", Wide: true, Cell: func(j rota.Job) any { return j.Error }},
	}
}

func lastWorker(j rota.Job) rota.WorkerID {
	if j.Lease != nil {
		return j.Lease.Worker
	}
	if n := len(j.Attempts); n > 0 {
		return j.Attempts[n-1].Worker
	}
	return ""
}

// Print prints one job as `job show` does.
func (a Commands) Print(j rota.Job) error {
	return a.PrintOne(j, []string{string(j.ID)}, func(wide bool) string { return Table(j, wide) })
}

// lossesText says how many workers were lost under a live job, nil for none.
func lossesText(j *rota.Job) any {
	switch {
	case j.Isolated:
		return fmt.Sprintf("%d: it runs alone on a worker", j.WorkerLosses)
	case j.WorkerLosses > 0:
		return j.WorkerLosses
	}
	return nil
}

// Table shows one job for people.
func Table(j rota.Job, wide bool) string {
	payload, output := string(j.Payload), string(j.Output)
	if !wide {
		payload, output = cli.Head(payload), cli.Head(output)
	}
	facts := []cli.Fact{{Name: "job", Value: j.ID}}
	if workflow, node, ok := rota.SplitNodeJobID(j.ID); ok {
		facts = append(facts, cli.Fact{Name: "workflow", Value: workflow}, cli.Fact{Name: "node", Value: node})
	}
	facts = append(facts, []cli.Fact{
		{Name: "state", Value: j.State}, {Name: "reason", Value: cli.ReasonText(j.Reason)},
		{Name: "error", Value: j.Error},
		{Name: "queue", Value: j.Queue}, {Name: "type", Value: j.Type}, {Name: "tenant", Value: j.Tenant},
		{Name: "priority", Value: j.Priority}, {Name: "try", Value: j.Attempt + 1},
		{Name: "workers lost", Value: lossesText(&j)},
		{Name: "labels", Value: cli.LabelsText(j.Labels)}, {Name: "headers", Value: cli.LabelsText(j.Headers)},
		{Name: "unique", Value: uniqueText(&j)}, {Name: "merged into", Value: string(j.MergedInto)},
		{Name: "batch", Value: j.Batch}, {Name: "progress", Value: progressText(j)},
		{Name: "submitted", Value: j.Submitted.Date}, {Name: "retried", Value: retriedText(j)},
		{Name: "finished", Value: j.Finished.Date}, {Name: "due", Value: j.Due.Date},
		{Name: "expires", Value: j.Expires.Date}, {Name: "waited", Value: cli.Between(j.Enqueued, j.FirstLease)},
		{Name: "took", Value: cli.Between(j.FirstLease, j.Finished)},
		{Name: "payload", Value: payload}, {Name: "output", Value: output},
		{Name: "output digest", Value: fmt.Sprintf("%x", []byte(j.OutputDigest))},
		{Name: "fingerprint", Value: fmt.Sprintf("%x", []byte(j.Fingerprint))},
		{Name: "meta", Value: cli.LabelsText(j.Meta)}, {Name: "spent", Value: j.Spent.String()},
	}...)
	if j.Archived {
		facts = append(facts, cli.Fact{Name: "kept", Value: "in the archive"})
	}
	if j.RecordDropped {
		facts = append(facts, cli.Fact{Name: "kept", Value: "outcome only: payload, output and attempts are gone"})
	}
	if wide {
		facts = append(facts, wideFacts(j)...)
	}
	text := cli.RenderFacts(facts)
	if len(j.Attempts) > 0 {
		text += "\n" + cli.RenderList(AttemptColumns(&j), j.Attempts, wide)
	}
	if j.Lease != nil {
		l := j.Lease
		text += "\n" + cli.RenderFacts([]cli.Fact{{Name: "lease", Value: l.ID}, {Name: "state", Value: l.State},
			{Name: "worker", Value: l.Worker}, {Name: "token",
				Value: l.Token},
			{Name: "renewals", Value: l.Renewals}, {Name: "deadline", Value: l.Deadline.Date},
			{Name: "chosen by", Value: l.Decision.Reasoning.Rule}, {Name: "round", Value: l.Decision.Epoch},
			{Name: "rank", Value: l.Decision.Rank}})
	}
	switch j.State {
	case rota.JobQueued, rota.JobDelayed, rota.JobBlocked:
		text += fmt.Sprintf("\nit waits: rota job why %s shows the reason\n", j.ID)
	}
	return text
}

func wideFacts(j rota.Job) []cli.Fact {
	positive := func(n int64) any {
		if n == 0 {
			return nil
		}
		return n
	}
	return []cli.Fact{
		{Name: "fee", Value: positive(j.Fee)}, {Name: "size bytes", Value: positive(j.SizeBytes)},
		{Name: "delay", Value: cli.Span(j.Delay.Milliseconds())}, {Name: "ttl",
			Value: cli.Span(j.TTL.Milliseconds())},
		{Name: "start by", Value: cli.Span(j.StartBy.Milliseconds())},
		{Name: "max runtime", Value: cli.Span(j.MaxRuntime.Milliseconds())},
		{Name: "not before", Value: rota.DateOf(j.NotBefore)}, {Name: "cpu milli",
			Value: positive(j.CPUMilli)},
		{Name: "memory bytes", Value: positive(j.MemoryBytes)},
		{Name: "io bytes per s", Value: positive(j.IOBytesPerS)},
		{Name: "requires", Value: strings.Join(j.Requires, ",")},
		{Name: "regions allowed", Value: strings.Join(j.RegionsAllow, ",")},
		{Name: "regions denied", Value: strings.Join(j.RegionsDeny,
			",")},
		{Name: "zone", Value: j.Zone}, {Name: "domain", Value: j.Domain}, {Name: "pinned to", Value: j.Worker},
		{Name: "limits", Value: cli.LimitsText(j.Limits)}, {Name: "data keys", Value: strings.Join(j.DataKeys, ",")},
		{Name: "keys", Value: strings.Join(j.Keys, ",")}, {Name: "units", Value: positive(j.Units)},
		{Name: "costs", Value: j.Costs.String()},
		{Name: "expected", Value: cli.Span(j.Expected.Milliseconds())},
		{Name: "preempted", Value: positive(int64(j.Preempted))},
		{Name: "expected digest", Value: fmt.Sprintf("%x", []byte(j.ExpectedDigest))},
		{Name: "simulate", Value: cli.Span(j.Simulate.Milliseconds())},
	}
}

// AttemptColumns count tries from 1, as people do, and lives, where there are several.
func AttemptColumns(j *rota.Job) (columns []cli.Column[rota.Attempt]) {
	if j.Life > 0 {
		columns = append(columns, cli.Column[rota.Attempt]{Head: "LIFE",
			Cell: func(t rota.Attempt) any { return t.Life + 1 }})
	}
	return append(columns, []cli.Column[rota.Attempt]{
		{Head: "TRY", Cell: func(t rota.Attempt) any { return t.Number + 1 }},
		{Head: "WORKER", Most: 24, Cell: func(t rota.Attempt) any { return t.Worker }},
		{Head: "TOKEN", Wide: true, Cell: func(t rota.Attempt) any { return t.Token }},
		{Head: "STARTED", Cell: func(t rota.Attempt) any { return t.Started.Date }},
		{Head: "RAN", Cell: func(t rota.Attempt) any { return cli.Between(t.Started, t.Ended) }},
		{Head: "RENEWALS", Cell: func(t rota.Attempt) any { return t.Renewals }},
		{Head: "END", Cell: func(t rota.Attempt) any { return cli.Or(cli.ReasonText(t.End), "open") }},
		{Head: "ERROR", Most: 30, Cell: func(t rota.Attempt) any { return t.Error }},
		{Head: "CHOSEN BY", Wide: true, Cell: func(t rota.Attempt) any { return chosenBy(t.Decision) }},
		{Head: "LEASE", Wide: true, Cell: func(t rota.Attempt) any { return t.Lease }},
	}...)
}

// retriedText returns how often a job was retried, and when the last time.
func retriedText(j rota.Job) string {
	switch {
	case j.Life == 0:
		return ""
	default:
		return fmt.Sprint(j.Life, "×, last ", j.Retried.Date)
	}
}

func chosenBy(d rota.Decision) string {
	if d.Reasoning.Rule == rota.ReasoningNone {
		return ""
	}
	return d.Reasoning.Rule.String()
}

func progressText(j rota.Job) string {
	if j.Progress == 0 && j.ProgressNote == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d%% %s", j.Progress, j.ProgressNote))
}
