package cluster

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/peer"
)

// wantLog waits until every node shows the log of the newest attempt as given.
func (b *bench) wantLog(job rota.JobID, open bool, want string) {
	b.t.Helper()
	for _, id := range b.ids() {
		b.eventually(fmt.Sprintf("node %s shows %q of job %s", id, want, job), func() bool {
			l, _, err := b.node(id).JobLog(within(b.t, ample), rota.LogOf{Job: job}, peer.ReadOptions{})
			var text []byte
			for _, p := range l.Parts {
				text = append(text, p.Text...)
			}
			return err == nil && l.Open == open && string(text) == want
		})
	}
}

func logOf(lines string) []byte {
	var w joblog.Writer
	_, _ = w.Write([]byte(lines))
	return w.Close()
}

// TestLogs_everyNode: the log of an attempt is followed from any node while it is open, and read from any node once it
// has ended, sent by its worker or, if the worker did not end it, by its node.
func TestLogs_everyNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.loyal()
	var at *Node
	for _, id := range b.ids() {
		if other := b.node(id); other != n {
			at = other
		}
	}
	h := newHand(t, at, "w1", 2)
	submitAll(t, n, specs("j", 2))
	leases := h.take(2)
	first, second := leases[0], leases[1]
	thief := newHand(t, n, "w2", 1)
	h.s.Logged([]peer.Logged{{Lease: first.Lease.ID, Part: rota.LogPart{Text: []byte("a\nb\n")}},
		{Lease: second.Lease.ID, Part: rota.LogPart{Text: []byte("half\n")}},
		{Lease: rota.LeaseID{1}, Part: rota.LogPart{Text: []byte("lost\n")}}})
	thief.s.Logged([]peer.Logged{{Lease: first.Lease.ID, Part: rota.LogPart{At: 4, Text: []byte("mine\n")}}})
	b.wantLog(first.Lease.Job, true, "a\nb\n")
	b.wantLog(second.Lease.Job, true, "half\n")
	if at.logs.Order.Len() != 2 || n.logs.Order.Len() != 0 {
		t.Fatalf("nodes keep %d and %d logs", at.logs.Order.Len(), n.logs.Order.Len())
	}

	answers, err := h.s.Do(within(t, ample), []peer.LeaseCommand{{Verb: rota.VerbComplete, Lease: first.Lease.ID,
		Job: first.Lease.Job,
		Log: logOf("a\nb\nc\n")}})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	b.wantLog(first.Lease.Job, false, "a\nb\nc\n")
	if _, err := n.Cancel(within(t, ample), []rota.JobID{second.Lease.Job}); err != nil {
		t.Fatal(err)
	}
	b.wantLog(second.Lease.Job, false, "half\n")
	b.eventually("the log of the lease that was cancelled is kept",
		func() bool { return at.LogHere(second.Lease.ID, 0).Known == false })
	b.wantLog(second.Lease.Job, false, "half\n")
	for _, id := range b.ids() { // the flushed log equals the staged one
		if err := b.node(id).archive.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	b.wantLog(first.Lease.Job, false, "a\nb\nc\n")
	b.wantLog(second.Lease.Job, false, "half\n")
	page, _, err := n.Jobs(within(t, ample), rota.JobFilter{}, peer.ReadOptions{})
	if err != nil || len(page.Jobs) != 2 || page.NextCursor != "" {
		t.Fatalf("jobs are %+v, %v", page.Jobs, err)
	}

	for of, subject := range map[*rota.LogOf]string{{Job: "nobody"}: "job",
		{Job: first.Lease.Job, Lease: rota.LeaseID{1}}: "attempt"} {
		if _, _, err := n.JobLog(within(t, ample), *of, peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound ||
			rota.ErrorOf(err).Subject != subject {
			t.Errorf("%+v: %v", of, err)
		}
	}
	submitAll(t, n, specs("quiet", 1))
	quiet := h.take(1)[0]
	h.do(rota.VerbComplete, quiet)
	if _, _, err := n.JobLog(within(t, ample), rota.LogOf{Job: quiet.Lease.Job},
		peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound ||
		rota.ErrorOf(err).Subject != "lease" {
		t.Errorf("of an attempt without a log: %v", err)
	}
}
