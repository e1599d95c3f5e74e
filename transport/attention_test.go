package transport

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

func TestAttention_listsWorstFirst(t *testing.T) {
	t.Parallel()
	now := rota.DateOf(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	ago := func(d time.Duration) rota.Date { return rota.DateOf(now.Time().Add(-d)) }
	status := &rota.ClusterStatus{Leader: "n1", Mode: rota.ModeDraining, ModeReason: "upgrade", StateBytes: 97,
		StateBytesMax: 100, Backup: &rota.StoredBackup{Date: ago(72 * time.Hour)},
		Nodes: []rota.NodeStatus{
			{ID: "n1", State: "LEADER", Healthy: true,
				Problems:        []string{"the disk is slow (runbook: https://example.com/Slow.md)"},
				CertificateEnds: ago(-time.Hour)},
			{ID: "n2", State: "UNREACHABLE", NodeHealth: rota.NodeHealth{LastContact: ago(40 * time.Second)}},
		}}
	paused := rota.Queue{Name: "paused", Queued: 1}
	paused.Policy.Paused = true
	x := surveyed{now: now, led: true, status: status, errors: true,
		queues: []rota.Queue{
			{Name: "well", Queued: 3, Workers: 1}, paused,
			{Name: "slow", Queued: 2, Workers: 1, OldestWait: 11 * time.Minute},
			{Name: "default", Queued: 877, OldestWait: 3 * time.Minute},
			{Name: "full", Queued: 9, Pending: 10, UsagePermille: 950, Backpressure: "THROTTLE", Workers: 1},
			{Name: "blocked", Pending: 4},
		},
		recent: map[rota.QueueName]peer.QueueRecent{"well": {Failed: [peer.RecentMinutes]int64{14: 74},
			First: ago(time.Minute), Error: "not an image"}}}
	a := x.attention()
	var got []string
	for _, c := range a.Concerns {
		line := c.Kind + " " + string(c.Node) + string(c.Queue) + " " + c.Text
		if c.Critical {
			line = "! " + line
		}
		got = append(got, line)
	}
	want := []string{
		"! NODE_UNREACHABLE n2 unreachable from the node asked",
		"! STATE_FULL  the state is at 97 % of state_bytes_max: submissions are refused at 100 %",
		"! QUEUE_NO_WORKER default 877 jobs waiting, no worker",
		"NODE_PROBLEM n1 the disk is slow",
		"MODE  the mode is DRAINING: upgrade",
		"QUEUE_FULL full 10 jobs pending, 95.0 % of its limit: backpressure THROTTLE",
		"QUEUE_WAITS slow 2 jobs waiting, the oldest for 11 min",
		"JOBS_FAIL well 74 failed for good in 15 min, newest: not an image",
		"QUEUE_PAUSED paused 1 job waiting, the queue is paused",
		"CERTIFICATE_ENDS n1 its certificate ends 2026-11-29T13:00:00.000Z: issue a new one, it is read without a restart",
		"BACKUP_OLD  the last backup is 3 d old",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	since := func(kind string) rota.Date {
		return a.Concerns[slices.IndexFunc(a.Concerns, func(c rota.Concern) bool { return c.Kind == kind })].Since
	}
	if since(concernNodeUnreachable) != ago(40*time.Second) || since(concernNoWorker) != ago(3*time.Minute) ||
		since(concernJobsFail) != ago(time.Minute) {
		t.Errorf("got %+v, want the dates at which the node was lost, the oldest job began to wait and the first job failed",
			a.Concerns)
	}
	if page := a.Concerns[3].Runbook; page != "https://example.com/Slow.md" {
		t.Errorf("got the runbook %s, want the one that the problem names", page)
	}
}

func TestAttention_showsWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	x := surveyed{queues: []rota.Queue{{Name: "q", Queued: 1, Workers: 1}}, led: true}
	if a := x.attention(); len(a.Concerns) != 0 || !slices.Equal(a.Checked, []string{"1 queue"}) {
		t.Errorf("without a right to the status: got %+v, want nothing but its queue to be checked", a)
	}
	x.recent = map[rota.QueueName]peer.QueueRecent{"q": {Failed: [peer.RecentMinutes]int64{1}, Error: "secret"},
		"other": {Failed: [peer.RecentMinutes]int64{1}}}
	if a := x.attention(); len(a.Concerns) != 1 || strings.Contains(a.Concerns[0].Text, "secret") {
		t.Errorf("without the right to data: got %+v, want one concern without its error", a.Concerns)
	}
	x.led = false
	if a := x.attention(); a.Concerns[0].Kind != concernNoLeader || !a.Concerns[0].Critical {
		t.Errorf("without a leader: got %+v, want that first", a.Concerns)
	}
}

func TestAttention_namesARunbookForEachKind(t *testing.T) {
	t.Parallel()
	for _, kind := range concernRank {
		if _, err := os.Stat(filepath.Join("..", "docs", "runbooks", concernRunbooks[kind]+".md")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if len(concernRank) != len(concernRunbooks) {
		t.Errorf("got %d kinds with a rank and %d with a runbook, want the same", len(concernRank),
			len(concernRunbooks))
	}
}
