package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rotasched/rota"
)

// jobCommands are the commands of jobs.
type jobCommands struct{ *app }

func (a jobCommands) command() *cobra.Command {
	return a.group(&cobra.Command{Use: "job", Short: "Submit jobs and look after them"},
		a.submit(), a.show(), a.list(), a.export(), a.wait(),
		a.alter(), a.cancel(), a.interrupt(), a.runNow(), a.retry(), a.delete(), a.reject(), a.why(), a.eta(), a.logs())
}

// jobIDs checks ids given as arguments and drops repeated ones. A workflow's node is
// named WORKFLOW/NODE.
func jobIDs(args []string) ([]rota.JobID, error) {
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

func jobName(j rota.Job) string { return string(j.ID) }

// jobColumns are the columns of a list of jobs.
func jobColumns() []column[rota.Job] {
	return []column[rota.Job]{
		{"ID", false, 0, func(j rota.Job) any { return j.ID }},
		{"STATE", false, 0, func(j rota.Job) any { return j.State }},
		{"QUEUE", false, 12, func(j rota.Job) any { return j.Queue }},
		{"TYPE", false, 14, func(j rota.Job) any { return j.Type }},
		{"TENANT", true, 0, func(j rota.Job) any { return j.Tenant }},
		{"PRI", false, 0, func(j rota.Job) any { return j.Priority }},
		{"TRY", false, 0, func(j rota.Job) any { return j.Attempt + 1 }},
		{"SUBMITTED", false, 0, func(j rota.Job) any { return j.Submitted.Date }},
		{"FINISHED", true, 0, func(j rota.Job) any { return j.Finished.Date }},
		{"WORKER", true, 0, func(j rota.Job) any { return lastWorker(j) }},
		{"REASON", true, 0, func(j rota.Job) any { return reasonText(j.Reason) }},
		{"ERROR", true, 0, func(j rota.Job) any { return j.Error }},
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

func reasonText(r rota.Reason) string {
	if r == rota.ReasonNone {
		return ""
	}
	return r.String()
}

// print prints one job as `job show` does.
func (a jobCommands) print(j rota.Job) error {
	return a.printOne(j, []string{string(j.ID)}, func(wide bool) string { return jobTable(j, wide) })
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

func jobTable(j rota.Job, wide bool) string {
	payload, output := string(j.Payload), string(j.Output)
	if !wide {
		payload, output = head(payload), head(output)
	}
	facts := []fact{{"job", j.ID}}
	if workflow, node, ok := rota.SplitNodeJobID(j.ID); ok {
		facts = append(facts, fact{"workflow", workflow}, fact{"node", node})
	}
	facts = append(facts, []fact{
		{"state", j.State}, {"reason", reasonText(j.Reason)}, {"error", j.Error},
		{"queue", j.Queue}, {"type", j.Type}, {"tenant", j.Tenant}, {"priority", j.Priority}, {"try", j.Attempt + 1}, {"workers lost", lossesText(&j)},
		{"labels", labelsText(j.Labels)}, {"headers", labelsText(j.Headers)}, {"unique", uniqueText(&j)}, {"merged into", string(j.MergedInto)}, {"batch", j.Batch}, {"progress", progressText(j)},
		{"submitted", j.Submitted.Date}, {"retried", retriedText(j)}, {"finished", j.Finished.Date}, {"due", j.Due.Date}, {"expires", j.Expires.Date},
		{"waited", between(j.Enqueued, j.FirstLease)}, {"took", between(j.FirstLease, j.Finished)},
		{"payload", payload}, {"output", output}, {"output digest", fmt.Sprintf("%x", []byte(j.OutputDigest))},
		{"fingerprint", fmt.Sprintf("%x", []byte(j.Fingerprint))},
		{"meta", labelsText(j.Meta)},
	}...)
	if j.Archived {
		facts = append(facts, fact{"kept", "in the archive"})
	}
	if j.RecordDropped {
		facts = append(facts, fact{"kept", "outcome only: payload, output and attempts are gone"})
	}
	if wide {
		facts = append(facts, wideFacts(j)...)
	}
	text := renderFacts(facts)
	if len(j.Attempts) > 0 {
		text += "\n" + renderList(attemptColumns(&j), j.Attempts, wide)
	}
	if j.Lease != nil {
		l := j.Lease
		text += "\n" + renderFacts([]fact{{"lease", l.ID}, {"state", l.State}, {"worker", l.Worker}, {"token",
			l.Token},
			{"renewals", l.Renewals}, {"deadline", l.Deadline.Date},
			{"chosen by", l.Decision.Reasoning.Rule}, {"round", l.Decision.Epoch}, {"rank", l.Decision.Rank}})
	}
	switch j.State {
	case rota.JobQueued, rota.JobDelayed, rota.JobBlocked:
		text += fmt.Sprintf("\nit waits: rota job why %s says for what\n", j.ID)
	}
	return text
}

func wideFacts(j rota.Job) []fact {
	positive := func(n int64) any {
		if n == 0 {
			return nil
		}
		return n
	}
	return []fact{
		{"fee", positive(j.Fee)}, {"size bytes", positive(j.SizeBytes)}, {"delay", span(j.Delay.Milliseconds())}, {"ttl",
			span(j.TTL.Milliseconds())},
		{"start by", span(j.StartBy.Milliseconds())},
		{"max runtime", span(j.MaxRuntime.Milliseconds())}, {"not before", rota.DateOf(j.NotBefore)}, {"cpu milli",
			positive(j.CPUMilli)},
		{"memory bytes", positive(j.MemoryBytes)}, {"io bytes per s", positive(j.IOBytesPerS)}, {"requires", strings.Join(j.Requires, ",")},
		{"regions allowed", strings.Join(j.RegionsAllow, ",")}, {"regions denied", strings.Join(j.RegionsDeny,
			",")},
		{"zone", j.Zone}, {"domain", j.Domain}, {"pinned to", j.Worker},
		{"limits", limitsText(j.Limits)}, {"data keys", strings.Join(j.DataKeys, ",")}, {"keys", strings.Join(j.Keys, ",")}, {"units", positive(j.Units)},
		{"expected", span(j.Expected.Milliseconds())}, {"preempted", positive(int64(j.Preempted))},
		{"expected digest", fmt.Sprintf("%x", []byte(j.ExpectedDigest))}, {"simulate", span(j.Simulate.Milliseconds())},
	}
}

// attemptColumns count tries from 1, as people do, and lives, where there are several.
func attemptColumns(j *rota.Job) (columns []column[rota.Attempt]) {
	if j.Life > 0 {
		columns = append(columns, column[rota.Attempt]{"LIFE", false, 0, func(t rota.Attempt) any { return t.Life + 1 }})
	}
	return append(columns, []column[rota.Attempt]{
		{"TRY", false, 0, func(t rota.Attempt) any { return t.Number + 1 }},
		{"WORKER", false, 24, func(t rota.Attempt) any { return t.Worker }},
		{"TOKEN", true, 0, func(t rota.Attempt) any { return t.Token }},
		{"STARTED", false, 0, func(t rota.Attempt) any { return t.Started.Date }},
		{"RAN", false, 0, func(t rota.Attempt) any { return between(t.Started, t.Ended) }},
		{"RENEWALS", false, 0, func(t rota.Attempt) any { return t.Renewals }},
		{"END", false, 0, func(t rota.Attempt) any { return or(reasonText(t.End), "open") }},
		{"ERROR", false, 30, func(t rota.Attempt) any { return t.Error }},
		{"CHOSEN BY", true, 0, func(t rota.Attempt) any { return chosenBy(t.Decision) }},
		{"LEASE", true, 0, func(t rota.Attempt) any { return t.Lease }},
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

// limitsText shows limits as --limit takes them, by name.
func limitsText(limits map[string]int64) string {
	names := slices.Sorted(maps.Keys(limits))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s=%d", name, limits[name])
	}
	return strings.Join(names, ",")
}

// parseLimits takes the pairs of --limit.
func parseLimits(pairs []string) (map[string]int64, error) {
	return parsePairs("--limit", pairs, "depth=20", func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })
}

// between is how much of the cluster clock passed; "" where either is not reached.
func between(from, to rota.Moment) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return or(span(int64(to.Clock-from.Clock)), "0s")
}

func progressText(j rota.Job) string {
	if j.Progress == 0 && j.ProgressNote == "" {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d%% %s", j.Progress, j.ProgressNote))
}

// head is the beginning of a long text.
func head(s string) string {
	const most = 72
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes; -o wide or json shows all)", len(s))
}
