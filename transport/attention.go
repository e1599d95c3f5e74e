package transport

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// These are the thresholds from which something is a concern: those of the alerts in deploy/prometheus/rules.yml,
// except that a queue without a worker, and failing jobs, are reported at once.
const (
	waitsLong       = 10 * time.Minute
	backupOld       = 48 * time.Hour
	certificateEnds = 14 * 24 * time.Hour
	stateFull       = 80 // percent of state_bytes_max
	maxConcerns     = 100
)

// These are the kinds of concerns, worst first.
const (
	concernNoLeader        = "NO_LEADER"
	concernNodeUnreachable = "NODE_UNREACHABLE"
	concernNodeProblem     = "NODE_PROBLEM"
	concernMode            = "MODE"
	concernStateFull       = "STATE_FULL"
	concernNoWorker        = "QUEUE_NO_WORKER"
	concernQueueFull       = "QUEUE_FULL"
	concernQueueWaits      = "QUEUE_WAITS"
	concernJobsFail        = "JOBS_FAIL"
	concernQueuePaused     = "QUEUE_PAUSED"
	concernCertificateEnds = "CERTIFICATE_ENDS"
	concernBackupOld       = "BACKUP_OLD"
)

// Runbooks is the base URL of the runbooks; each page is a file in it.
const Runbooks = "https://github.com/rotasched/rota/blob/main/docs/runbooks/"

// concernRank orders the kinds, worst first.
var concernRank = []string{concernNoLeader, concernNodeUnreachable, concernNodeProblem, concernMode, concernStateFull,
	concernNoWorker, concernQueueFull, concernQueueWaits, concernJobsFail, concernQueuePaused,
	concernCertificateEnds, concernBackupOld}

// concernRunbooks maps each kind to its page in docs/runbooks.
var concernRunbooks = map[string]string{
	concernNoLeader: "RotaNoLeader", concernNodeUnreachable: "RotaNodeDown", concernNodeProblem: "RotaNotReady",
	concernMode: "ClusterMode", concernStateFull: "StateFull", concernNoWorker: "RotaQueueWaits",
	concernQueueFull: "RotaQueueFull", concernQueueWaits: "RotaQueueWaits", concernQueuePaused: "QueuePaused",
	concernJobsFail: "JobsFail", concernCertificateEnds: "RotaCertificateEnds", concernBackupOld: "RotaBackupOld",
}

// surveyed holds the data from which concerns are computed: only what the caller may see.
type surveyed struct {
	now    rota.Date
	queues []rota.Queue
	// recent is nil for a caller that may not read all queues; errors reports whether it may read errors.
	recent map[rota.QueueName]peer.QueueRecent
	errors bool
	// status is nil for a caller without the right to it; led is known to all.
	status *rota.ClusterStatus
	led    bool
}

// attention returns the list of concerns for an operator, as this node finds it for the caller of the context.
func (s *Server) attention(ctx context.Context) (rota.Attention, error) {
	core, live := s.options.Core, webLive{s}
	queues, _, err := core.Queues(ctx, peer.ReadOptions{Stale: true})
	if err != nil {
		return rota.Attention{}, err
	}
	status, err := core.Status(ctx)
	if err != nil {
		return rota.Attention{}, err
	}
	x := surveyed{now: s.today(), queues: queues, led: status.Leader != ""}
	if live.may(ctx, rota.RightStatus) {
		x.status = &status
	}
	if live.may(ctx, rota.RightRead) {
		x.recent, x.errors = core.Recent(ctx), live.may(ctx, rota.RightData)
	}
	a := x.attention()
	a.Node = s.options.Self
	return a, nil
}

// attention lists the concerns, worst first, and the checks that were made.
func (x *surveyed) attention() rota.Attention {
	a := rota.Attention{Date: x.now, Concerns: []rota.Concern{}}
	if !x.led {
		a.Concerns = append(a.Concerns, rota.Concern{Kind: concernNoLeader, Critical: true,
			Text: "no node leads: no job is accepted or placed until a majority of the voters reach each other"})
	}
	if x.status != nil {
		a.Concerns = append(a.Concerns, x.ofCluster(x.status)...)
		a.Checked = append(a.Checked, things(len(x.status.Nodes), "node"), x.backup())
	}
	for i := range x.queues {
		a.Concerns = append(a.Concerns, x.ofQueue(&x.queues[i])...)
	}
	a.Checked = append(a.Checked, things(len(x.queues), "queue"))
	if x.recent != nil {
		a.Checked = append(a.Checked, fmt.Sprintf("the ends of the last %d minutes", peer.RecentMinutes))
	}
	slices.SortStableFunc(a.Concerns, func(p, q rota.Concern) int {
		return cmp.Or(order(q.Critical)-order(p.Critical), cmp.Compare(slices.Index(concernRank, p.Kind),
			slices.Index(concernRank, q.Kind)), cmp.Compare(q.Count, p.Count), cmp.Compare(p.Queue, q.Queue))
	})
	a.Concerns = a.Concerns[:min(len(a.Concerns), maxConcerns)]
	for i := range a.Concerns {
		c := &a.Concerns[i]
		if c.Runbook == "" {
			c.Runbook = Runbooks + concernRunbooks[c.Kind] + ".md"
		}
	}
	return a
}

// order returns 1 for true, and serves to sort lists.
func order(set bool) int {
	if set {
		return 1
	}
	return 0
}

// things returns a count with its noun.
func things(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// backup returns a text on the age of the last backup.
func (x *surveyed) backup() string {
	if x.status.Backup == nil {
		return "no backup yet"
	}
	return "the last backup is " + age(x.now, x.status.Backup.Date) + " old"
}

// ofCluster returns the concerns about the nodes and the cluster as a whole.
func (x *surveyed) ofCluster(c *rota.ClusterStatus) (all []rota.Concern) {
	for i := range c.Nodes {
		all = append(all, x.ofNode(&c.Nodes[i])...)
	}
	if c.Mode != rota.ModeNormal {
		text := "the mode is " + c.Mode.String()
		if c.ModeReason != "" {
			text += ": " + c.ModeReason
		}
		all = append(all, rota.Concern{Kind: concernMode, Text: text})
	}
	if c.StateBytesMax > 0 && c.StateBytes >= c.StateBytesMax/100*stateFull {
		percent := c.StateBytes * 100 / c.StateBytesMax
		all = append(all, rota.Concern{Kind: concernStateFull, Critical: percent >= 95, Count: percent,
			Text: fmt.Sprintf("the state is at %d %% of state_bytes_max: submissions are refused at 100 %%", percent)})
	}
	if b := c.Backup; b != nil && x.now.Time().Sub(b.Date.Time()) > backupOld {
		all = append(all, rota.Concern{Kind: concernBackupOld, Since: b.Date,
			Text: "the last backup is " + age(x.now, b.Date) + " old"})
	}
	return all
}

// runbookIn finds the runbook link inside a problem text.
var runbookIn = regexp.MustCompile(` ?\(runbook: (https://[^ )]+)\)`)

// ofNode returns the concerns about one node.
func (x *surveyed) ofNode(n *rota.NodeStatus) (all []rota.Concern) {
	if n.State == "UNREACHABLE" {
		return []rota.Concern{{Kind: concernNodeUnreachable, Critical: true, Node: n.ID, Since: n.LastContact,
			Text: "unreachable from the node asked"}}
	}
	for _, p := range n.Problems {
		c := rota.Concern{Kind: concernNodeProblem, Node: n.ID, Text: p, Critical: !n.Healthy}
		if found := runbookIn.FindStringSubmatch(p); found != nil {
			c.Runbook, c.Text = found[1], runbookIn.ReplaceAllString(p, "")
		}
		all = append(all, c)
	}
	if ends := n.CertificateEnds; ends != 0 && ends.Time().Sub(x.now.Time()) < certificateEnds {
		all = append(all, rota.Concern{Kind: concernCertificateEnds, Critical: ends <= x.now, Node: n.ID,
			Text: fmt.Sprintf("its certificate ends %s: issue a new one, it is read without a restart", ends)})
	}
	return all
}

// ofQueue returns the concerns about one queue: the worst cause that blocks its jobs, and failing jobs.
func (x *surveyed) ofQueue(q *rota.Queue) (all []rota.Concern) {
	since := rota.Date(0)
	if q.OldestWait > 0 {
		since = rota.DateOf(x.now.Time().Add(-q.OldestWait))
	}
	c := rota.Concern{Queue: q.Name, Since: since, Count: q.Queued}
	waiting := things(int(q.Queued), "job") + " waiting"
	switch {
	case q.Backpressure != "" && q.Backpressure != "NONE":
		c.Kind, c.Critical, c.Count, c.Since = concernQueueFull, q.Backpressure == "REFUSE", q.Pending, 0
		c.Text = fmt.Sprintf("%s pending, %d.%d %% of its limit: backpressure %s", things(int(q.Pending), "job"),
			q.UsagePermille/10, q.UsagePermille%10, q.Backpressure)
	case q.Policy.Paused && q.Queued > 0:
		c.Kind, c.Text = concernQueuePaused, waiting+", the queue is paused"
	case q.Policy.Paused:
	case q.Queued > 0 && q.Workers == 0:
		c.Kind, c.Critical, c.Text = concernNoWorker, true, waiting+", no worker"
	case q.OldestWait > waitsLong:
		c.Kind, c.Text = concernQueueWaits, fmt.Sprintf("%s, the oldest for %s", waiting, age(x.now, since))
	}
	if c.Kind != "" {
		all = append(all, c)
	}
	r := x.recent[q.Name]
	if failed := r.FailedJobs(); failed > 0 {
		text := fmt.Sprintf("%d failed for good in %d min", failed, peer.RecentMinutes)
		if x.errors && r.Error != "" {
			text += ", newest: " + r.Error
		}
		all = append(all, rota.Concern{Kind: concernJobsFail, Queue: q.Name, Count: failed, Since: r.First, Text: text})
	}
	return all
}

// age returns the time from a date to now, in its largest unit.
func age(now, since rota.Date) string {
	d := now.Time().Sub(since.Time())
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d/time.Second)))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d/time.Hour))
	}
	return fmt.Sprintf("%d d", int(d/(24*time.Hour)))
}
