package fsm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

// busyBench contains a bit of everything.
func busyBench(t tester) *bench { return busyBenchOn(newBench(t)) }

func busyBenchOn(b *bench) *bench {
	b.ok(queueOp("q2", "ranking", "market", "fair_share", "off"))
	b.ok(queueOp("default", "ttl_abs", "1h"))
	for i := range 4 {
		b.worker(fmt.Sprint("w", i), 2, func(w *rota.WorkerSpec) {
			w.Queues, w.Capabilities, w.CPUMilli = append(w.Queues, "q2"), []string{"gpu"}, 4000
		})
	}
	for i := range 20 {
		b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) {
			s.Priority, s.Fee, s.Tenant = int32(i%11), int64(i)*1000, rota.TenantID(fmt.Sprint("t", i%3))
			if i%2 == 0 {
				s.Queue = "q2"
			}
			if i%5 == 0 {
				s.Delay, s.Requires, s.Labels = time.Second, []string{"gpu"}, map[string]string{"b": "1", "a": "2"}
			}
			if i%3 == 0 {
				s.Headers = map[string]string{"tracestate": "", "traceparent": fmt.Sprint("00-", i)}
			}
			if i%7 == 0 {
				s.NotBefore = rota.Date(startClock + 1e6).Time()
			}
		})
	}
	n := 0
	for _, l := range inOrder(b.match()) {
		switch n++; n % 4 {
		case 0:
			b.ok(verb(rota.VerbComplete, l, output("done")))
		case 1:
			b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Text = "boom" }))
		case 2:
			b.ok(verb(rota.VerbRenew, l))
		}
	}
	b.submit("pinned", func(s *rota.JobSpec) { s.Worker = "absent" })
	b.submit("cancelled", func(s *rota.JobSpec) { s.Worker = "absent" })
	b.ok(cancelOp("cancelled"))
	b.ok(registerOp("w1", 2, "other", true))
	b.ok(reachOp("w2", 3, false, b.now))
	return b
}

func TestFrozen(t *testing.T) {
	t.Parallel()
	records := func(f *Frozen) (all []byte) {
		if err := f.Records(func(kind byte, rec []byte) error {
			all = append(append(all, kind, byte(len(rec))), rec...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	t.Run("is_reached_by_no_later_change", func(t *testing.T) {
		t.Parallel()
		b := busyBench(t)
		f, jobs := b.Freeze(), b.View.Jobs()
		before := records(f)
		page, _ := jobs.Page(rota.JobFilter{}, nil)
		shown, _ := json.Marshal(page)
		b.pass(10_000)
		for range 3 {
			for _, l := range b.match() {
				b.ok(verb(rota.VerbComplete, l))
			}
		}
		b.ok(queueOp("q2", "ranking", "fifo"))
		b.pass(60_000)
		if !bytes.Equal(before, records(f)) {
			t.Fatal("the frozen state changed")
		}
		page, _ = jobs.Page(rota.JobFilter{}, nil)
		if again, _ := json.Marshal(page); !bytes.Equal(again, shown) {
			t.Fatal("the frozen list changed")
		}
	})
	t.Run("comes_back_equal", func(t *testing.T) {
		t.Parallel()
		b := busyBench(t)
		m := b.restored()
		if m.View.Digest() != b.View.Digest() || !bytes.Equal(records(m.Freeze()), records(b.Freeze())) {
			t.Fatal("a restored state differs")
		}
	})
	t.Run("comes_back_from_before_the_first_entry", func(t *testing.T) {
		t.Parallel()
		b := emptyBench(t)
		b.twin = b.restored()
		b.lead()
	})
	t.Run("refuses_a_record_that_is_lost_repeated_or_changed", func(t *testing.T) {
		t.Parallel()
		b := busyBench(t)
		f := b.Freeze()
		total := 0
		_ = f.Records(func(byte, []byte) error { total++; return nil })
		for victim := range total {
			for _, damage := range []string{"lost", "twice", "flipped", "short", "long"} {
				if err := loadDamaged(f, victim, damage); err == nil {
					t.Fatalf("record %d %s: accepted", victim, damage)
				}
			}
		}
	})
	t.Run("refuses_the_snapshot_of_a_newer_binary_or_another_cluster", func(t *testing.T) {
		t.Parallel()
		f := busyBench(t).Freeze()
		info := f.Info()
		info.RulesVersion = entry.RulesVersion + 1
		if _, err := NewLoader(info); err == nil {
			t.Fatal("newer rules are accepted")
		}
		for _, change := range []func(*rota.SnapshotInfo){
			func(i *rota.SnapshotInfo) { i.ClusterID = "other" },
			func(i *rota.SnapshotInfo) { i.Index++ },
			func(i *rota.SnapshotInfo) { i.Digest.Lo++ },
		} {
			info := f.Info()
			change(&info)
			l, _ := NewLoader(info)
			if err := f.Records(l.Add); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Finish(); err == nil {
				t.Fatalf("a state is accepted for %+v", info)
			}
		}
	})
}

// loadDamaged loads a frozen state with one record damaged. A staged record is outside the digest, and a node may have
// flushed it: only its shape is checked here.
func loadDamaged(f *Frozen, victim int, damage string) error {
	l, err := NewLoader(f.Info())
	if err != nil {
		return err
	}
	n, digested := -1, true
	err = f.Records(func(kind byte, rec []byte) error {
		if n++; n != victim {
			return l.Add(kind, rec)
		}
		digested = kind != state.TagRecord
		rec = bytes.Clone(rec)
		switch damage {
		case "lost":
			return nil
		case "twice":
			if err := l.Add(kind, rec); err != nil {
				return err
			}
		case "flipped":
			rec[len(rec)/2] ^= 0x10
		case "short":
			rec = rec[:len(rec)-1]
		case "long":
			rec = append(rec, 0)
		}
		return l.Add(kind, rec)
	})
	if err != nil {
		return err
	}
	_, err = l.Finish()
	if err == nil && !digested && (damage == "flipped" || damage == "lost") {
		return rota.Refusef(rota.KindConflict, "record", "left to the snapshot's counts and checksums")
	}
	return err
}

func TestReincarnate(t *testing.T) {
	t.Parallel()
	b := busyBench(t)
	before := b.View.Head()
	old := inOrder(b.match())
	for _, m := range []*Machine{b.Machine, b.twin} {
		for _, bad := range []rota.ClusterID{"", "a b", "test"} {
			if err := m.Reincarnate(Rebirth{Cluster: bad}); err == nil {
				t.Fatalf("cluster id %q is accepted", bad)
			}
		}
		if err := m.Reincarnate(Rebirth{Cluster: "second"}); err != nil {
			t.Fatal(err)
		}
	}
	h := b.View.Head()
	if h.ClusterID != "second" || h.Incarnation != before.Incarnation+1 || h.Term != 0 || h.Leader != "" ||
		h.Index < before.Index || h.Beacon == before.Beacon || h.Digest == before.Digest ||
		h.Digest != b.twin.View.Digest() {
		t.Fatalf("head %+v", h)
	}
	b.sound()
	c := b.View.Counts()
	if c.Assigned+c.Running != 0 || c.Queued == 0 {
		t.Fatalf("counts %+v", c)
	}
	b.View.LiveWorkers(func(id rota.WorkerID, _ rota.Session, s rota.WorkerStatus, _ rota.Clock) {
		t.Fatalf("worker %s is %s", id, s)
	})
	if _, known := b.View.Node("n1"); known {
		t.Fatal("a node is known")
	}
	b.term = 0
	b.lead() // the fresh cluster's log continues after the restored index
	for _, l := range old {
		o := entry.OutcomeError(b.entry(verb(rota.VerbComplete, l)).Outcomes[0])
		if o == nil || o.Kind != rota.KindStale {
			t.Fatalf("a void lease was completed: %v", o)
		}
	}
	for _, id := range []string{"w0", "w1", "w2"} {
		b.worker(id, 4, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "q2") })
	}
	for _, l := range b.match() {
		for _, o := range old {
			if o.Token.Compare(l.Token) >= 0 || o.ID == l.ID {
				t.Fatalf("token %s after %s", l.Token, o.Token)
			}
		}
		if a, ok := b.View.Assignment(l.ID); !ok || a.Lease.Token.Incarnation != 2 {
			t.Fatalf("lease %+v", l)
		}
	}
	b.pass(10_000)
	if again := b.restored(); again.View.Digest() != b.View.Digest() {
		t.Fatal("a restored state differs")
	}
}

// TestReincarnate_survivor checks that a recovered state lets the jobs of void leases wait, keeps refusing the ids of
// all other nodes, and takes the given incarnation.
func TestReincarnate_survivor(t *testing.T) {
	t.Parallel()
	b := busyBench(t)
	old := inOrder(b.match())
	if len(old) == 0 {
		t.Fatal("no lease is open")
	}
	for _, id := range []string{"n1", "n2", "n3"} {
		b.entry(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: id, Identity: "of-" + id}}})
	}
	queued := b.View.Counts().Queued
	as := Rebirth{Cluster: "second", Incarnation: 1_800_000_000, Pause: 60_000, Survivor: "n1",
		Lost: []rota.NodeID{"n1", "n2", "n9"}}
	for _, m := range []*Machine{b.Machine, b.twin} {
		if err := m.Reincarnate(as); err != nil {
			t.Fatal(err)
		}
	}
	b.sound()
	if h := b.View.Head(); h.Incarnation != as.Incarnation || h.Digest != b.twin.View.Digest() {
		t.Fatalf("head %+v", h)
	}
	for id, want := range map[rota.NodeID]bool{"n1": false, "n2": true, "n3": true, "n9": true} {
		if m, known := b.View.Node(id); known != want || m.Removed != want {
			t.Errorf("node %s: known %v, removed %v, want %v", id, known, m.Removed, want)
		}
	}
	if c := b.View.Counts(); c.Assigned+c.Running != 0 || c.Queued != queued {
		t.Fatalf("counts %+v, %d were queued before", c, queued)
	}
	for _, l := range old {
		if j, ok := b.View.Job(l.Job); !ok || j.State != rota.JobDelayed {
			t.Errorf("job %s is %s", l.Job, j.State)
		}
	}
	b.term = 0
	b.lead()
	for _, id := range []string{"n2", "n9"} {
		o := entry.OutcomeError(b.entry(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: id,
			Identity: "new"}}}).Outcomes[0])
		if o == nil || o.Kind != rota.KindConflict {
			t.Errorf("the lost id %s is accepted: %v", id, o)
		}
	}
	if o := entry.OutcomeError(b.entry(&fsmpb.Op{Op: &fsmpb.Op_SetNode{SetNode: &fsmpb.SetNode{Id: "n1",
		Identity: "new"}}}).Outcomes[0]); o != nil {
		t.Errorf("the survivor is refused under its new identity: %v", o)
	}
}

// TestReincarnate_tokens checks that a restored backup's tokens are no longer valid, unless requested.
func TestReincarnate_tokens(t *testing.T) {
	t.Parallel()
	for _, void := range []bool{false, true} {
		b := busyBench(t)
		b.entry(by(rota.Local, tokenOp(tokenWish("a", "root"))))
		b.ok(by(actorNamed("a"), registerOp("of-a", 1, "of-a", false)))
		for _, m := range []*Machine{b.Machine, b.twin} {
			if _, _, err := m.View.Access().Resolve(actorNamed("a"), 0); err != nil {
				t.Fatal(err)
			}
			if err := m.Reincarnate(Rebirth{Cluster: "second", VoidTokens: void}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := m.View.Access().Resolve(actorNamed("a"), 0); (err != nil) != void {
				t.Errorf("void %v: %v", void, err)
			}
			if _, err := m.access.RightsOf(actorNamed("a")); (err != nil) != void {
				t.Errorf("void %v, according to the machine %v", void, err)
			}
		}
		b.sound()
	}
}
