package cluster

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// TestAuditOfNodes audits the decisions of real nodes, from a data directory and from a backup, and explains the past
// on a running node.
func TestAuditOfNodes(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	// The number of rounds for the jobs below depends on the machine; a turn of the oldest, which comes every N leases,
	// would place the one job to be explained.
	if _, err := b.leader().SetQueue(within(t, ample), rota.DefaultQueue, "",
		[]rota.Setting{{Key: "oldest_every", Value: "0"}}); err != nil {
		t.Fatal(err)
	}
	h := newHand(t, b.follower(), "w1", 60)
	submitAll(t, b.leader(), specs("a", 40))
	first := h.take(40)
	h.do(rota.VerbComplete, first[:30]...)
	over, _, err := b.follower().Why(within(t, ample), first[0].Lease.Job, rota.WhyQuery{Others: true},
		peer.ReadOptions{})
	if err != nil || over.State != rota.JobCompleted || over.Clock == 0 || over.Date == 0 {
		t.Errorf("an ended job returns %+v, %v: it lacks the moment of the reading", over, err)
	}
	submitAll(t, b.leader(), specs("b", 50))
	more := h.take(50)

	t.Run("explains_a_placed_job_with_those_not_chosen", func(t *testing.T) {
		newHand(t, b.leader(), "w2", 5)
		b.submitted(t, "late")
		var x rota.Explanation
		b.eventually("the job is placed", func() bool {
			var err error
			x, _, err = b.follower().Why(within(t, 10*time.Second), "late-00000", rota.WhyQuery{Others: true},
				peer.ReadOptions{})
			return err == nil && x.Decision != nil
		})
		if x.Decision.Height == 0 || len(x.Decision.Others) != 1 || len(x.Decision.Seed) != 32 ||
			x.Decision.Note != "" {
			t.Fatalf("%+v", x.Decision)
		}
		// In the state that the decision was made on, nothing was placed; if it was made with the job's own entry, the
		// job did not exist there.
		then, _, err := b.follower().Why(within(t, ample), "late-00000",
			rota.WhyQuery{At: x.Decision.Height, Others: true}, peer.ReadOptions{})
		if rota.KindOf(err) == rota.KindNotFound {
			then, err = rota.Explanation{State: rota.JobQueued, Index: x.Decision.Height}, nil
		}
		if err != nil || then.State != rota.JobQueued || then.Index != x.Decision.Height || then.Decision != nil {
			t.Fatalf("%+v, %v", then, err)
		}
		if _, _, err := b.leader().Why(within(t, ample), "late-00000", rota.WhyQuery{At: 1 << 40},
			peer.ReadOptions{}); rota.KindOf(err) != rota.KindOutOfRange {
			t.Fatalf("the future was explained: %v", err)
		}
		if _, _, err := b.leader().Why(within(t, ample), "nobody", rota.WhyQuery{Others: true},
			peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
			t.Fatalf("an unknown job was explained: %v", err)
		}
	})
	h.do(rota.VerbComplete, more...)

	path := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.follower().SaveSnapshot(within(t, ample), peer.ReadOptions{}, f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	report, err := audit.Backup(within(t, ample), snapshot.At(path), slog.New(slog.DiscardHandler))
	if err != nil || report.Difference != nil || report.Rounds < 3 || report.Proved != report.Rounds {
		t.Fatalf("%+v, %+v, %v", report, report.Difference, err)
	}
	leader := b.leader()
	data := leader.cfg.Data
	if _, err := audit.Data(within(t, ample), data,
		slog.New(slog.DiscardHandler)); rota.KindOf(err) != rota.KindConflict ||
		!strings.Contains(err.Error(), "another process") {
		t.Fatalf("a running node's directory was audited: %v", err)
	}
	b.stop(leader.cfg.Node)
	report, err = audit.Data(within(t, ample), data, slog.New(slog.DiscardHandler))
	if err != nil || report.Difference != nil || report.Rounds < 3 || report.Proved != report.Rounds {
		t.Fatalf("%+v, %+v, %v", report, report.Difference, err)
	}
}

func (b *bench) submitted(t *testing.T, prefix string) { submitAll(t, b.leader(), specs(prefix, 1)) }

// TestAuditFindsAPlantedDifference changes one pair of one round in a copy of a node's data, with every checksum
// correct: the audit names that round and stops there.
func TestAuditFindsAPlantedDifference(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	newHand(t, b.follower(), "w1", 40)
	newHand(t, b.leader(), "w2", 40)
	const jobs = 60
	for _, prefix := range []string{"a", "b", "c"} {
		submitAll(t, b.leader(), specs(prefix, jobs/3))
	}
	b.eventually("all are placed", func() bool {
		q, _, err := b.leader().Queue(within(t, 10*time.Second), rota.DefaultQueue, peer.ReadOptions{})
		return err == nil && q.Assigned == jobs
	})
	n := b.follower()
	data := n.cfg.Data
	// The follower's log may lag behind the leader's answer.
	placed := b.leader().clusterVerbs.ownStatus().AppliedIndex
	b.eventually("the follower has the placements",
		func() bool { return n.clusterVerbs.ownStatus().AppliedIndex >= placed })
	b.stop(n.cfg.Node)
	whole, err := audit.Data(within(t, ample), data, slog.New(slog.DiscardHandler))
	if err != nil || whole.Difference != nil || whole.Proved != whole.Rounds || whole.Rounds == 0 {
		t.Fatalf("%+v, %v", whole, err)
	}
	other := map[string]string{"w1": "w2", "w2": "w1"}
	for name, change := range map[string]func(*fsmpb.Round, *fsmpb.Pair){
		"another_worker":  func(_ *fsmpb.Round, p *fsmpb.Pair) { p.Worker = other[p.GetWorker()] },
		"another_score":   func(_ *fsmpb.Round, p *fsmpb.Pair) { p.Score++ },
		"another_reason":  func(_ *fsmpb.Round, p *fsmpb.Pair) { p.N++ },
		"a_pair_left_out": func(r *fsmpb.Round, _ *fsmpb.Pair) { r.Pairs = r.Pairs[:len(r.Pairs)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			planted := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(planted, os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
			var last string
			index, logged := plant(t, planted, func(r *fsmpb.Round, p *fsmpb.Pair) {
				last = p.GetJob()
				change(r, p)
			})
			report, err := audit.Data(within(t, ample), planted, slog.New(slog.DiscardHandler))
			d := report.Difference
			if err != nil || d == nil {
				t.Fatalf("the change at index %d is not found: %+v, %v", index, report, err)
			}
			if d.Index != index || d.Epoch != logged.GetEpoch() || d.Height != rota.Index(logged.GetHeight()) ||
				d.Queue != rota.DefaultQueue || report.Proved != report.Rounds-1 || d.Logged == d.Proved ||
				!strings.Contains(d.Proved, `"`+last+`"`) {
				t.Errorf("planted at index %d at job %s, reported %+v of %+v", index, last, d, report)
			}
		})
	}
}

// plant changes the last pair of the last round in a data directory's log, and returns the entry's index and the
// changed round.
func plant(t *testing.T, data string, change func(*fsmpb.Round, *fsmpb.Pair)) (rota.Index, *fsmpb.Round) {
	t.Helper()
	stores, err := raftstore.Open(data, raftstore.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stores.Close()
	last, err := stores.Log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for index := last; index > 0; index-- {
		var stored raft.Log
		if err := stores.Log.GetLog(index, &stored); err != nil {
			t.Fatal(err)
		}
		const envelope = 12
		e := &fsmpb.Entry{}
		if stored.Type != raft.LogCommand {
			continue
		}
		if err := proto.Unmarshal(stored.Data[envelope:], e); err != nil {
			t.Fatal(err)
		}
		for _, op := range e.GetOps() {
			r := op.GetRound()
			if len(r.GetPairs()) == 0 {
				continue
			}
			change(r, r.Pairs[len(r.Pairs)-1])
			if stored.Data, err = entry.Seal(e, entry.FirstRules); err != nil {
				t.Fatal(err)
			}
			replaced := []*raft.Log{&stored}
			for later := index + 1; later <= last; later++ {
				kept := new(raft.Log)
				if err := stores.Log.GetLog(later, kept); err != nil {
					t.Fatal(err)
				}
				replaced = append(replaced, kept)
			}
			if err := errors.Join(stores.Log.DeleteRange(index, last), stores.Log.StoreLogs(replaced)); err != nil {
				t.Fatal(err)
			}
			return rota.Index(index), r
		}
	}
	t.Fatal("the log holds no round")
	return 0, nil
}
