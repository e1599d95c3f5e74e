package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/bucket"
	"github.com/rotasched/rota/test/rig"
)

// A backup is made of a working cluster and becomes a separate cluster: the jobs are there, no lease is, and no earlier
// token is granted again.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "kept", "--preset", "aicf-ai", "--set", "queue_cap=4321").want(t, 0)
	cl := c.dial(t)
	kept := submitTo(t, cl, "kept", "kept", 25)
	l := startLoad(t, c, "load", 3, 2, 5*time.Millisecond)
	leased := startLong(t, c, "long", 60*time.Second, c.all)
	l.flows(t, 200)
	before := c.job(t, string(leased[0].id))

	file := filepath.Join(t.TempDir(), "backup")
	saved := decode[rota.SnapshotInfo](t, c.rota(t, "operator", "snapshot", "save", file, "-o", "json"))
	seen := decode[rota.SnapshotInfo](t, command(t, nil, "", "operator", "snapshot", "inspect", file, "-o", "json"))
	if saved != seen || saved.Index == 0 || saved.Bytes == 0 || saved.Digest == (rota.Digest{}) {
		t.Errorf("save printed %+v, inspect %+v", saved, seen)
	}
	if r := c.rota(t, "operator", "snapshot", "save", file); r.code == 0 {
		t.Error("a backup overwrote another one")
	}
	contains(t, "who read the state", c.rota(t, "events", "tail", "--kind", "snapshotRead", "-o", "jsonl").stdout,
		`"actor":"anonymous"`, `/grpc"`, fmt.Sprintf(`"index":%d`, saved.Index))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the backup's file: %v, %v: others may read it", info.Mode(), err)
	}
	l.settle(c)

	r := newNode(t, "r1", "--bootstrap-expect", "1")
	restore := []string{"operator", "snapshot", "restore", file, "--data", r.Dir, "--node", r.ID, "--raft", r.Raft}
	command(t, nil, "", restore...).want(t, 0)
	command(t, nil, "", restore...).want(t, 1) // no longer empty
	r.start(t)
	r.awaitReady(t)
	second := &nodes{t: t, all: []*node{r}}
	status, err := second.status(t)
	check(t, err)
	if status.ClusterID == saved.ClusterID {
		t.Error("the restored cluster has the old one's id")
	}
	for _, id := range kept {
		if job := second.job(t, string(id)); job.State != rota.JobQueued || string(job.Payload) != "kept" {
			t.Errorf("job %s is %s with payload %q", id, job.State, job.Payload)
		}
	}
	if q := decode[rota.Queue](t, second.rota(t, "queue", "show", "kept", "-o", "json")); q.Policy.QueueCap != 4321 {
		t.Errorf("the queue has the cap %d", q.Policy.QueueCap)
	}
	tokensGrow(t, second, before)
	for i := range 2 {
		second.join(t, fmt.Sprintf("r%d", i+2))
		second.awaitVoter(t, fmt.Sprintf("r%d", i+2))
	}
	second.verified(t, 3)
}

// tokensGrow checks that an earlier lease is void, and that the next one has a larger token.
func tokensGrow(t *testing.T, c *nodes, before rota.Job) {
	t.Helper()
	if before.Lease == nil {
		t.Fatal("the job had no lease before the backup")
	}
	now := c.job(t, string(before.ID))
	if now.Lease != nil || now.State != rota.JobQueued {
		t.Errorf("job %s is %s with lease %+v in the restored cluster, want QUEUED without one", now.ID, now.State,
			now.Lease)
	}
	w := c.worker(t, "--id", string(before.Worker), "--queues", string(before.Queue))
	now = c.awaitState(t, c.dial(t), string(before.ID), 30*time.Second, rota.JobCompleted)
	last := now.Attempts[len(now.Attempts)-1].Token
	if before.Lease.Token.Compare(last) >= 0 {
		t.Errorf("token %s of the restored cluster is not above the earlier %s", last, before.Lease.Token)
	}
	w.stop(t, 15*time.Second)
}

// One node of three that is left cannot answer for the cluster; its data can be saved through its socket, and not
// remotely: the node may not know which callers have lost the right to it.
func TestBackup_staleWithoutQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	submitTo(t, c.dial(t), "default", "kept", 5)
	c.verified(t, 3)
	c.all[1].Kill()
	c.all[2].Kill()
	left := &nodes{t: t, all: c.all[:1]}
	file := filepath.Join(t.TempDir(), "stale")
	if r := left.rota(t, "operator", "snapshot", "save", file, "--timeout", "3s"); r.code == 0 {
		t.Error("a backup of the cluster was made without a leader")
	}
	denied := left.rota(t, "operator", "snapshot", "save", file, "--stale").want(t, 8)
	contains(t, "by the network", denied.stderr, "socket", "--data")
	r := command(t, nil, "", "operator", "snapshot", "save", file, "--stale", "--data", c.all[0].Dir, "-o",
		"json").want(t, 0)
	info := decode[rota.SnapshotInfo](t, r)
	contains(t, "stderr", r.stderr, fmt.Sprint("index ", info.Index), info.Date.String())
	contains(t, "the node's log", c.all[0].Life().Stderr.String(), "no leader is there to tell it", "actor=local",
		fmt.Sprint("index=", info.Index))
	n := newNode(t, "r1", "--bootstrap-expect", "1")
	command(t, nil, "", "operator", "snapshot", "restore", file, "--data", n.Dir, "--node", n.ID, "--raft",
		n.Raft).want(t, 0)
	n.start(t)
	n.awaitReady(t)
	second := &nodes{t: t, all: []*node{n}}
	for i := range 5 {
		second.job(t, fmt.Sprintf("kept-%03d", i))
	}
}

// A leader stores backups by itself, drills prove them, and damaged or forged ones are detected.
func TestBackup_byTheLeader(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	c := &nodes{t: t, all: []*node{newNode(t, "n1", "--bootstrap-expect", "1", "--backup-to", to, "--backup-every",
		"1s", "--backup-keep", "3")}}
	c.all[0].start(t)
	c.awaitReady()
	submitTo(t, c.dial(t), "default", "kept", 5)
	type backup struct {
		Cluster rota.ClusterID `json:"cluster_id"`
		Index   rota.Index     `json:"index"`
		File    string         `json:"file"`
	}
	list := func() []backup {
		return decode[[]backup](t, command(t, nil, "", "operator", "backup", "list", "--from", to, "-o", "json"))
	}
	eventually(t, 30*time.Second, "a backup with the jobs", func() error {
		if all := list(); len(all) == 0 {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	c.all[0].Kill()
	all := list()
	newest := all[len(all)-1].File
	command(t, nil, "", "operator", "backup", "drill", "--from", to).want(t, 0)
	whole, err := os.ReadFile(newest)
	check(t, err)
	drill := func(what, says string, change func()) {
		t.Helper()
		change()
		r := command(t, nil, "", "operator", "backup", "drill", "--from", to)
		r.want(t, 1)
		contains(t, what, r.stderr, says)
		check(t, os.WriteFile(newest, whole, 0o600))
	}
	drill("a flipped bit", filepath.Base(newest), func() {
		torn := append([]byte(nil), whole...)
		torn[len(torn)/2] ^= 1
		check(t, os.WriteFile(newest, torn, 0o600))
	})
	drill("a truncated one", filepath.Base(newest), func() { check(t, os.Truncate(newest, int64(len(whole)/2))) })
	forged := filepath.Join(to, fmt.Sprintf("%s-%020d.snap", all[0].Cluster, all[len(all)-1].Index+9))
	drill("a forged name", "unlike its name", func() { check(t, os.WriteFile(forged, whole, 0o600)) })
	check(t, os.Rename(forged, filepath.Join(to, fmt.Sprintf("c-other-%020d.snap", 9))))
	drill("two clusters'", "--cluster-id", func() {})
	command(t, nil, "", "operator", "backup", "drill", "--from", to, "--cluster-id", string(all[0].Cluster)).want(t, 0)
}

// Backups in a bucket are encrypted: a thief reads nothing, the holder of the identity proves and restores it.
func TestBackup_sealedInABucket(t *testing.T) {
	t.Parallel()
	key, err := age.GenerateX25519Identity()
	check(t, err)
	s3 := bucket.Start(t, "backups")
	const to = "s3://backups/rota"
	n := newNode(t, "n1", "--bootstrap-expect", "1", "--backup-to", to, "--backup-every", "1h", "--backup-recipient",
		key.Recipient().String())
	n.Env = rig.Bare(s3.Environment()...)
	c := &nodes{t: t, all: []*node{n}}
	n.start(t)
	c.awaitReady()
	submitTo(t, c.dial(t), "default", "kept", 5)
	stored := decode[rota.StoredBackup](t, c.rota(t, "operator", "backup", "now", "-o", "json"))
	newest := "rota/" + stored.Name
	status, err := c.status(t)
	check(t, err)
	if status.Backup == nil || !reflect.DeepEqual(*status.Backup, stored) {
		t.Errorf("status reports %+v, backup now %+v", status.Backup, stored)
	}
	contains(t, "events", c.rota(t, "events", "tail", "--kind", "backupStored", "-o", "json").stdout,
		stored.SHA256.String(), stored.Name)
	n.Kill()
	if stolen := s3.Object("backups", newest); bytes.Contains(stolen, []byte("kept")) ||
		!bytes.HasPrefix(stolen, []byte("age-encryption.org/v1\n")) {
		t.Error("the stored backup is readable without the key")
	}
	identity := filepath.Join(t.TempDir(), "identity")
	check(t, os.WriteFile(identity, []byte(key.String()+"\n"), 0o600))
	run := func(args ...string) *result {
		return command(t, s3.Environment(), "", append([]string{"operator"}, args...)...)
	}
	at := "s3://backups/" + newest
	run("backup", "list", "--from", to).want(t, 0)
	run("backup", "drill", "--from", to, "--identity", identity).want(t, 0)
	r := run("backup", "drill", "--from", to)
	r.want(t, 1)
	contains(t, "a drill without the identity", r.stderr, "--identity")
	run("snapshot", "inspect", at, "--identity", identity).want(t, 0)

	second := newNode(t, "r1", "--bootstrap-expect", "1")
	restore := func(sum [32]byte) *result {
		return run("snapshot", "restore", at, "--identity", identity, "--sha256", hex.EncodeToString(sum[:]), "--data",
			second.Dir, "--node", second.ID, "--raft", second.Raft)
	}
	sum := sha256.Sum256(s3.Object("backups", newest))
	if !bytes.Equal(sum[:], stored.SHA256) {
		t.Errorf("the state has SHA-256 %s, the file %x", stored.SHA256, sum)
	}
	r = restore(sha256.Sum256([]byte("another")))
	r.want(t, 1)
	contains(t, "another's SHA-256", r.stderr, hex.EncodeToString(sum[:]))
	restore(sum).want(t, 0)
	second.start(t)
	second.awaitReady(t)
	restored := &nodes{t: t, all: []*node{second}}
	for i := range 5 {
		restored.job(t, fmt.Sprintf("kept-%03d", i))
	}
}
