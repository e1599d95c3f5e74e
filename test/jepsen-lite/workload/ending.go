package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
	"github.com/rotasched/rota/test/rig"
)

// readLogs reads the founders' logs, once all have stopped.
func (w *trial) readLogs() {
	var logs []check.NodeLog
	for _, s := range w.Cluster.All()[:w.Cluster.Founders] {
		logs = append(logs, check.ReadLog(s.ID, filepath.Join(w.Cluster.Dir, s.ID, "log")))
	}
	w.Rec.With(func(h *check.History) {
		if h.Verdict != nil {
			h.Logs = check.CompareLogs(logs, uint64(h.Verdict.Index))
		}
	})
}

const (
	// maxWhole bounds reading all events of one node, maxLate the joining of a node at the end, maxAudit one audit,
	// of a short run: at the end of a long run there is more to read and to calculate again (patience).
	maxWhole = 40 * time.Second
	maxLate  = 40 * time.Second
	maxAudit = time.Minute
	// samples is the number of ended jobs that are read one by one at each node.
	samples = 60
)

// readEnd asks every node separately for the data that must be the same everywhere: all events, and the jobs that
// ended. A node that joins only now must return the same.
func (w *trial) readEnd(ctx context.Context, k *watching) {
	nodes := w.Cluster.All()[:w.Cluster.Founders]
	late, err := w.latecomer(ctx)
	if err != nil {
		w.Rec.Note("no node joined at the end: %v", err)
	} else {
		nodes = append(slices.Clone(nodes), late)
	}
	told, errs := make([][]check.ToldEvent, len(nodes)), make([]error, len(nodes))
	var longest []check.SeenEvent
	for i, s := range nodes {
		var whole []check.SeenEvent
		whole, errs[i] = w.readAll(ctx, s)
		told[i] = check.Briefs(whole)
		if i == 0 && len(whole) > 0 {
			k.catchUp(ctx, whole[len(whole)-1].ID)
		}
		if len(whole) > len(longest) { // only that is kept in full
			longest = whole
		}
	}
	k.stop()
	k.done.Wait()
	var streams []check.Stream
	for i, s := range nodes {
		t := check.Against(s.ID, true, longest, told[i])
		if errs[i] != nil {
			t.Error = errs[i].Error()
		}
		streams = append(streams, t)
	}
	for _, s := range k.all {
		t := check.Against(s.name, false, longest, s.told)
		if t.Breaks = s.breaks; s.err != nil {
			t.Error = s.err.Error()
		}
		streams = append(streams, t)
	}
	w.Rec.Note("events were read")
	shown := w.compareShown(ctx, nodes)
	w.Rec.Note("histories were read")
	w.readJobLogs(ctx, nodes)
	w.Rec.With(func(h *check.History) { h.Events, h.Streams, h.Shown = longest, streams, shown })
}

// latecomer lets one more node join.
func (w *trial) latecomer(ctx context.Context) (*fault.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience(maxLate))
	defer cancel()
	s, err := w.Cluster.Fresh()
	if err != nil {
		return nil, err
	}
	return s, w.Cluster.Serves(ctx, s)
}

// patience returns how long a step at the end may take if short is enough after a short run.
func (w *trial) patience(short time.Duration) time.Duration {
	return short + w.Options.Duration/4
}

// readAll reads all events of one node, and starts again if the reading breaks off.
func (w *trial) readAll(ctx context.Context, s *fault.Server) (all []check.SeenEvent, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience(maxWhole))
	defer cancel()
	for ctx.Err() == nil {
		all = nil
		err = tail(ctx, s, w.dialling(), rota.EventID{}, false, func(e check.SeenEvent) { all = append(all, e) })
		if rota.KindOf(err) != rota.KindUnavailable || !fault.Rest(ctx, 500*time.Millisecond) {
			return all, err
		}
	}
	return all, errors.Join(err, ctx.Err())
}

// compareShown lists the ended jobs at each node and reads some of them.
func (w *trial) compareShown(ctx context.Context, nodes []*fault.Server) (shown []check.NodeShows) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(nodes))*w.patience(maxList))
	defer cancel()
	var first, firstRead, firstFlows map[string]string
	r := rand.New(rand.NewPCG(w.Options.Seed, 30_000))
	var ids []string
	for i, s := range nodes {
		n := check.NodeShows{Node: s.ID}
		listed, err := listAt(ctx, s.Client)
		if i == 0 {
			first = listed
			ids = check.Draw(r, listed, samples)
		}
		read, rerr := readAt(ctx, s.Client, ids)
		if i == 0 {
			firstRead = read
		}
		flows, final, ferr := w.flowsAt(ctx, s.Client)
		if i == 0 {
			firstFlows = flows
			w.Rec.With(func(h *check.History) { h.FinalFlows = final })
		}
		if err = errors.Join(err, rerr, ferr); err != nil {
			n.Error = err.Error()
		}
		n.Listed, n.Sampled = len(listed), len(read)
		n.Differs = append(check.Differences("lists", first, listed), check.Differences("shows", firstRead, read)...)
		n.Differs = append(n.Differs, check.Differences("shows, of workflows,", firstFlows, flows)...)
		shown = append(shown, n)
	}
	return shown
}

// listAt lists the ended jobs as one node shows them.
func listAt(ctx context.Context, c *client.Client) (map[string]string, error) {
	all := make(map[string]string)
	for _, state := range []rota.JobState{rota.JobCompleted, rota.JobDead, rota.JobExpired, rota.JobCancelled} {
		for job, err := range c.Jobs(ctx, rota.JobFilter{State: state}) {
			if err != nil {
				return all, err
			}
			all[string(job.ID)] = check.TextOf(job)
		}
	}
	return all, nil
}

func readAt(ctx context.Context, c *client.Client, ids []string) (map[string]string, error) {
	all := make(map[string]string)
	for _, id := range ids {
		job, err := c.Job(ctx, rota.JobID(id))
		if err != nil {
			return all, fmt.Errorf("job %s: %w", id, err)
		}
		all[id] = check.TextOf(job)
	}
	return all, nil
}

// flowsAt reads every submitted workflow as one node shows it; workflows that it does not know are left out.
func (w *trial) flowsAt(ctx context.Context,
	c *client.Client) (texts map[string]string, final []check.FinalFlow, err error) {
	texts = make(map[string]string)
	var ids []string
	w.Rec.With(func(h *check.History) {
		for _, f := range h.Flows {
			ids = append(ids, f.ID)
		}
	})
	for _, id := range ids {
		flow, err := c.WorkflowGraph(ctx, rota.WorkflowID(id))
		if rota.KindOf(err) == rota.KindNotFound {
			continue
		}
		if err != nil {
			return texts, final, fmt.Errorf("workflow %s: %w", id, err)
		}
		text, err := json.Marshal(flow)
		if err != nil {
			return texts, final, err
		}
		texts[id] = string(text)
		f := check.FinalFlow{ID: id, State: flow.State.String(), Runs: flow.Runs, Nodes: make(map[string]string)}
		for i := range flow.Nodes {
			f.Nodes[flow.Nodes[i].ID] = flow.Nodes[i].State.String()
		}
		final = append(final, f)
	}
	return texts, final, nil
}

// audit replays every founder's data, once all have stopped.
func (w *trial) audit() {
	founders := w.Cluster.All()[:w.Cluster.Founders]
	all := make([]check.AuditOf, len(founders))
	most := w.patience(maxAudit)
	var done errgroup.Group
	done.SetLimit(2) // each keeps a processor busy
	for i, s := range founders {
		done.Go(func() error {
			all[i] = auditOf(w.Cluster.Binary, s.ID, filepath.Join(w.Cluster.Dir, s.ID), most)
			return nil
		})
	}
	_ = done.Wait()
	w.Rec.Note("logs were audited")
	w.Rec.With(func(h *check.History) { h.Audits = all })
}

func auditOf(binary, node, data string, most time.Duration) check.AuditOf {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "operator", "audit", "--data", data, "-o", "json")
	cmd.Env = rig.Inherited()
	cmd.SysProcAttr = rig.Attributes()
	out, err := cmd.Output()
	a := check.AuditOf{Node: node, Report: &rota.AuditReport{}}
	if jerr := json.Unmarshal(out, a.Report); jerr != nil {
		a.Report, err = nil, errors.Join(err, jerr)
	}
	if err != nil {
		a.Error = err.Error()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			a.Error += ": " + strings.TrimSpace(string(exit.Stderr))
		}
	}
	return a
}
