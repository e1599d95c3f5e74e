package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// diskReport is the output of operator recover --report.
type diskReport struct {
	Node        rota.NodeID    `json:"node"`
	ClusterID   rota.ClusterID `json:"cluster_id"`
	Incarnation uint64         `json:"incarnation"`
	Term        uint64         `json:"last_term"`
	Index       uint64         `json:"last_index"`
	Digest      rota.Digest    `json:"digest"`
}

// recovered is the output of operator recover --yes-lose-quorum.
type recovered struct {
	ClusterID   rota.ClusterID `json:"cluster_id"`
	Incarnation uint64         `json:"incarnation"`
	Aside       string         `json:"aside"`
}

// fullest kills all nodes and returns them, first the one whose disk goes furthest, with the file of each one's report.
func (c *nodes) fullest(t testing.TB) (all []*node, reports []diskReport, files []string) {
	t.Helper()
	type disk struct {
		n      *node
		report diskReport
		file   string
	}
	var disks []disk
	for _, n := range c.all {
		n.Kill()
	}
	for _, n := range c.all {
		r := command(t, nil, "", "operator", "recover", "--data", n.Dir, "--report", "-o", "json")
		report := decode[diskReport](t, r)
		disks = append(disks, disk{n, report, writeFile(t, filepath.Join(t.TempDir(), n.ID+".json"), r.stdout)})
	}
	slices.SortFunc(disks, func(a, b disk) int {
		return cmp.Or(cmp.Compare(b.report.Term, a.report.Term), cmp.Compare(b.report.Index, a.report.Index))
	})
	for _, d := range disks {
		all, reports, files = append(all, d.n), append(reports, d.report), append(files, d.file)
	}
	return all, reports, files
}

// submitter submits until it is stopped, and records which jobs were acknowledged.
func (c *nodes) submitter(t *testing.T) (stop func() []rota.JobID) {
	ctx, cancel := context.WithCancel(context.Background())
	cl := c.dial(t)
	var acked []rota.JobID
	var mu sync.Mutex
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			spec := rota.NewJobSpec("kept", []byte("amid"))
			spec.ID = rota.JobID(fmt.Sprintf("amid-%05d", i))
			if _, err := cl.Submit(ctx, spec); err == nil {
				mu.Lock()
				acked = append(acked, spec.ID)
				mu.Unlock()
			}
		}
	})
	eventually(t, 60*time.Second, "jobs flow", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(acked) < 100 {
			return fmt.Errorf("%d jobs", len(acked))
		}
		return nil
	})
	return func() []rota.JobID { cancel(); all.Wait(); return acked }
}

// Two of three disks are destroyed under load: the third continues with every acknowledged job, its tokens grow, and
// members of the old cluster stay out.
func TestRecover_oneDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	held := startLong(t, c, "long", time.Hour, c.all)
	before := c.job(t, string(held[0].id))
	stop := c.submitter(t)
	disks, reports, files := c.fullest(t)
	acked := stop()
	survivor, old, lost := disks[0], disks[1], disks[2]
	second := filepath.Join(t.TempDir(), "second")
	copyTree(t, old.Dir, second)

	// Both survivors are recovered at once, by two operators independently.
	var both [2]*result
	var wait sync.WaitGroup
	wait.Go(func() {
		both[0] = command(t, nil, "", "operator", "recover", "--data", survivor.Dir, "--yes-lose-quorum", "--others",
			files[1], "--others", files[2], "-o", "json")
	})
	wait.Go(func() {
		both[1] = command(t, nil, "", "operator", "recover", "--data", second, "--yes-lose-quorum", "-o", "json")
	})
	wait.Wait()
	r, other := decode[recovered](t, both[0]), decode[recovered](t, both[1])
	if r.Incarnation == other.Incarnation || r.ClusterID == other.ClusterID || r.ClusterID == reports[0].ClusterID ||
		r.Incarnation <= reports[0].Incarnation {
		t.Errorf("recovered to %+v and %+v from %+v", r, other, reports[0])
	}
	if _, err := os.Stat(filepath.Join(r.Aside, "raft.db")); err != nil {
		t.Errorf("the old files are not aside: %v", err)
	}

	check(t, os.RemoveAll(lost.Dir))
	survivor.Flags = nil
	survivor.start(t)
	survivor.awaitReady(t)
	one := &nodes{t: t, all: []*node{survivor}}
	for _, id := range acked {
		if job := one.job(t, string(id)); string(job.Payload) != "amid" {
			t.Fatalf("job %s has the payload %q", id, job.Payload)
		}
	}
	now := one.job(t, string(before.ID))
	if now.State != rota.JobDelayed || now.Lease != nil {
		t.Errorf("job %s of a void lease is %s with lease %v, want DELAYED", now.ID, now.State, now.Lease)
	}
	tokenAbove(t, one, before.Lease.Token)
	one.keepsOut(t, old, lost)
	one.join(t, "n4")
	one.awaitVoter(t, "n4")
	one.verified(t, 2)
}

// tokenAbove lets a worker receive a job and checks that its token is greater.
func tokenAbove(t *testing.T, c *nodes, before rota.Token) {
	t.Helper()
	c.rota(t, "queue", "set", "next", "--preset", "standard").want(t, 0)
	submitTo(t, c.dial(t), "next", "next", 1)
	w := c.worker(t, "--id", "next-w", "--queues", "next")
	job := c.awaitState(t, c.dial(t), "next-000", 30*time.Second, rota.JobCompleted)
	w.stop(t, 15*time.Second)
	if token := job.Attempts[len(job.Attempts)-1].Token; token.Compare(before) <= 0 {
		t.Errorf("token %s of the recovered cluster is not above %s", token, before)
	}
}

// keepsOut checks that a recovered cluster accepts neither an old disk nor a lost id.
func (c *nodes) keepsOut(t *testing.T, old, lost *node) {
	t.Helper()
	gossip := []string{"--join", c.all[0].Gossip}
	old.Flags, lost.Flags = gossip, gossip
	old.start(t)
	eventually(t, 30*time.Second, "gossip and Raft refuse the old disk", func() error {
		for _, part := range []string{"gossip: a node is refused", "this node belongs to another cluster"} {
			if said := old.Stderr.String(); !strings.Contains(said, part) {
				return fmt.Errorf("%q is not printed", part)
			}
		}
		return nil
	})
	old.Kill()
	lost.refused(t, "was removed from the cluster")
	peers, err := c.peers(t)
	check(t, err)
	if len(peers) != len(c.all) {
		t.Errorf("the recovered cluster has %v", peers)
	}
}

// A majority that turns out to live is fenced off: its tokens are smaller, whatever it does.
func TestRecover_membersLiveAfterAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	submitTo(t, c.dial(t), "default", "before", 3)
	disks, _, _ := c.fullest(t)
	command(t, nil, "", "operator", "recover", "--data", disks[0].Dir, "--yes-lose-quorum").want(t, 0)
	survivor, old := &nodes{t: t, all: disks[:1]}, &nodes{t: t, all: disks[1:]}
	for _, one := range [...]*nodes{survivor, old} { // each behind its side of a cut network
		for _, n := range one.all {
			n.Flags = one.joins(n)
		}
	}
	for _, n := range disks {
		n.start(t)
	}
	survivor.awaitReady()
	old.awaitReady()
	held := startLong(t, old, "long", time.Hour, old.all)
	tokenAbove(t, survivor, old.job(t, string(held[0].id)).Lease.Token)
	for what, one := range map[string]*nodes{"recovered": survivor, "old": old} {
		status, err := one.status(t)
		check(t, err)
		if one.byID(string(status.Leader)) == nil {
			t.Errorf("the %s cluster is led by %s", what, status.Leader)
		}
	}
}

// Disks that must not be recovered are refused, and left unchanged.
func TestRecover_refuses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	submitTo(t, c.dial(t), "default", "before", 10)
	submitTo(t, c.dial(t), "default", "after", 1) // damage before a later batch is never a torn write
	c.verified(t, 3)
	n, other := c.all[0], c.all[1]
	try := func(args ...string) *result {
		return command(t, nil, "", append([]string{"operator", "recover", "--data", n.Dir, "--yes-lose-quorum"},
			args...)...)
	}
	says := func(r *result, code int, parts ...string) {
		t.Helper()
		r.want(t, code)
		contains(t, "the refusal", r.stderr, parts...)
	}
	says(try(), 1, "in use")
	n.Kill()
	says(try(), 1, "answers at")
	other.Kill()
	c.all[2].Kill()
	says(command(t, nil, "", "operator", "recover", "--data", t.TempDir(), "--report"), 1, "node.json")
	says(command(t, nil, "", "operator", "recover", "--data", n.Dir), 2, "--report", "--yes-lose-quorum")

	own := command(t, nil, "", "operator", "recover", "--data", n.Dir, "--report", "-o", "json")
	report := decode[map[string]any](t, own)
	write := func(change func(map[string]any)) string {
		t.Helper()
		m := parse[map[string]any](t, own)
		change(m)
		text, err := json.Marshal(m)
		check(t, err)
		return writeFile(t, filepath.Join(t.TempDir(), "report.json"), string(text))
	}
	index, term := report["last_index"].(float64), report["last_term"].(float64)
	for _, of := range []struct {
		change func(map[string]any)
		says   string
	}{
		{func(m map[string]any) { m["last_index"] = index + 1 }, "recover from that disk"},
		{func(m map[string]any) { m["last_term"], m["last_index"] = term+1, 1 }, "recover from that disk"},
		{func(m map[string]any) { m["digest"] = strings.Repeat("0", 32) }, "other digests"},
		{func(m map[string]any) { m["cluster_id"] = "c-another" }, "c-another"},
		{func(m map[string]any) { delete(m, "node") }, "is not a report"},
	} {
		says(try("--others", write(of.change)), 1, of.says)
	}
	path := logFile(t, n.Dir)
	whole, err := os.ReadFile(path)
	check(t, err)
	torn := bytes.ReplaceAll(whole, []byte("before-009"), []byte("before,009"))
	if bytes.Equal(torn, whole) {
		t.Fatal("the log does not contain the last job")
	}
	check(t, os.WriteFile(path, torn, 0o600))
	says(try(), 1, filepath.Base(path), "damaged")
	check(t, os.WriteFile(path, whole, 0o600))
	for _, n := range c.all { // everything is unchanged
		n.start(t)
	}
	c.awaitReady()
	c.verified(t, 3)
}
