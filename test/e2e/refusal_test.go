package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"hash/crc64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// A node that would break its promises, or would use another's data, does not start, and prints the remedy. The other
// nodes continue unaffected.
func TestRefusalsAtStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	l := startLoad(t, c, "load", 1, 2, 20*time.Millisecond)
	l.flows(t, 50)
	victim := c.followers(t)[0]
	for _, one := range []struct {
		name string
		try  func(*testing.T, *nodes, *node)
	}{
		{"second_process_on_a_live_directory", refuseSecondProcess},
		{"data_of_another_cluster_name", refuseOtherName},
		{"data_of_another_node", refuseOtherNode},
		{"copied_directory", refuseCopy},
		{"emptied_directory_of_a_known_id", refuseEmptied},
		{"known_id_on_another_directory", refuseOtherDirectory},
		{"flipped_bits_in_the_log", refuseFlipped},
		{"truncated_log", refuseTruncated},
		{"missing_log", refuseMissingLog},
		{"newer_directory_format", refuseNewerDirectory},
	} {
		ok := t.Run(one.name, func(t *testing.T) {
			one.try(t, c, victim)
			if _, err := c.status(t); err != nil {
				t.Errorf("the rest of the cluster: %v", err)
			}
		})
		if !ok && !victim.Running() {
			break // it did not come back: the rest would only repeat that
		}
	}
	l.flows(t, 20)
	l.settle(c)
	c.verified(t, 3)
}

// double starts the same node a second time, at other addresses.
func double(t *testing.T, c *nodes, of *node, dir string) *node {
	t.Helper()
	n := &node{Node: &rig.Node{ID: of.ID, Dir: dir, Line: []string{rotaBinary}, Flags: c.joins(of)}}
	n.takePorts(t)
	return n
}

// back starts the victim again unchanged, which must work. It lives on with the whole test.
func back(t *testing.T, c *nodes, n *node) {
	t.Helper()
	n.start(c.t)
	n.awaitReady(t)
}

func refuseSecondProcess(t *testing.T, c *nodes, victim *node) {
	double(t, c, victim, victim.Dir).refused(t, victim.Dir, "in use", "Stop that process")
	victim.awaitReady(t)
}

func refuseOtherName(t *testing.T, c *nodes, victim *node) {
	victim.Kill()
	n := double(t, c, victim, victim.Dir)
	n.Flags = append(n.Flags, "--cluster", "other")
	n.refused(t, `belongs to cluster "rota"`, "--cluster rota")
	back(t, c, victim)
}

func refuseOtherNode(t *testing.T, c *nodes, victim *node) {
	victim.Kill()
	n := double(t, c, victim, victim.Dir)
	n.ID = "n9"
	n.refused(t, "belongs to node "+victim.ID, "--node "+victim.ID)
	back(t, c, victim)
}

func refuseCopy(t *testing.T, c *nodes, victim *node) {
	victim.Kill()
	dir := filepath.Join(t.TempDir(), "copy")
	copyTree(t, victim.Dir, dir)
	double(t, c, victim, dir).refused(t, "copied", "Start the original")
	back(t, c, victim)
}

func refuseEmptied(t *testing.T, c *nodes, victim *node) {
	victim.Kill()
	aside := victim.Dir + "-aside"
	check(t, os.Rename(victim.Dir, aside))
	check(t, os.Mkdir(victim.Dir, 0o700))
	double(t, c, victim, victim.Dir).refused(t, "known to the cluster", "remove-peer "+victim.ID)
	check(t, os.RemoveAll(victim.Dir))
	check(t, os.Rename(aside, victim.Dir))
	back(t, c, victim)
}

func refuseOtherDirectory(t *testing.T, c *nodes, victim *node) {
	// A fresh directory while the true owner of the id lives.
	double(t, c, victim, filepath.Join(t.TempDir(), "fresh")).refused(t, victim.ID)
	victim.awaitReady(t)
}

// damage changes a file of a node, expects a refusal, and puts it back.
func damage(t *testing.T, c *nodes, victim *node, file func(t *testing.T, dir string) string,
	change func(whole []byte) []byte, parts ...string) {
	t.Helper()
	victim.Kill()
	path := file(t, victim.Dir)
	whole, err := os.ReadFile(path)
	check(t, err)
	check(t, os.WriteFile(path, change(slices.Clone(whole)), 0o600))
	double(t, c, victim, victim.Dir).refused(t, append(parts, filepath.Base(path))...)
	check(t, os.WriteFile(path, whole, 0o600))
	back(t, c, victim)
}

// logFile returns the newest file of a node's log.
func logFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "log", "*.wal"))
	check(t, err)
	if len(files) == 0 {
		t.Fatal(dir + " holds no log")
	}
	return slices.Max(files)
}

func raftFile(_ *testing.T, dir string) string { return filepath.Join(dir, "raft.db") }

func refuseFlipped(t *testing.T, c *nodes, victim *node) {
	const marker = "these-bytes-lie-in-an-entry-of-the-log"
	c.rota(t, "job", "submit", "--type", "x", "--id", "marked", "--payload", marker).want(t, 0)
	c.rota(t, "job", "submit", "--type", "x", "--id", "later").want(t, 0) // so that the damage is not a torn write
	eventually(t, 10*time.Second, "the job is in the victim's log", func() error {
		return c.hasApplied(t, victim)
	})
	damage(t, c, victim, logFile, func(whole []byte) []byte {
		if !bytes.Contains(whole, []byte(marker)) {
			t.Fatal("the log does not hold the job's payload")
		}
		return bytes.ReplaceAll(whole, []byte(marker), []byte(strings.ToUpper(marker[:1])+marker[1:]))
	}, "damaged", "checksum")
}

func refuseTruncated(t *testing.T, c *nodes, victim *node) {
	// Into its second head: the rest is small, and may have been written further ahead.
	damage(t, c, victim, raftFile, func(whole []byte) []byte { return whole[:6000] }, "damaged")
	damage(t, c, victim, logFile, func(whole []byte) []byte { return whole[:len(whole)/2] }, "damaged", "without entry")
}

func refuseMissingLog(t *testing.T, c *nodes, victim *node) {
	victim.Kill()
	path := filepath.Join(victim.Dir, "raft.db")
	check(t, os.Rename(path, path+".aside"))
	double(t, c, victim, victim.Dir).refused(t, "raft.db", "missing")
	_ = os.Remove(path)
	check(t, os.Rename(path+".aside", path))
	back(t, c, victim)
}

func refuseNewerDirectory(t *testing.T, c *nodes, victim *node) {
	victim.Kill()
	path := filepath.Join(victim.Dir, "node.json")
	whole, err := os.ReadFile(path)
	check(t, err)
	check(t, os.WriteFile(path, anyFormat.ReplaceAll(whole, []byte(`"format": 9`)), 0o600))
	double(t, c, victim, victim.Dir).refused(t, "format 9", "newer")
	check(t, os.WriteFile(path, whole, 0o600))
	back(t, c, victim)
}

// Nodes of two clusters that find each other stay separate, whatever their names.
func TestForeignCluster(t *testing.T) {
	t.Parallel()
	ours, theirs := newCluster(t, 1), newCluster(t, 1)
	stranger := theirs.all[0]
	stranger.stop(t, 15*time.Second)
	stranger.Flags = append(stranger.Flags, "--join", ours.all[0].Gossip)
	stranger.start(t)
	stranger.awaitReady(t)
	both := func() string { return ours.all[0].Stderr.String() + stranger.Stderr.String() }
	eventually(t, 20*time.Second, "one of the two reports that the other is of another cluster", func() error {
		if !strings.Contains(both(), "cluster id") {
			return os.ErrNotExist
		}
		return nil
	})
	fresh := newNode(t, "n7", "--cluster", "another-name", "--join", ours.all[0].Gossip)
	fresh.start(t)
	fresh.says(t, 10*time.Second, "waiting for other nodes")
	submitTo(t, ours.dial(t), "default", "ours", 5)
	submitTo(t, theirs.dial(t), "default", "theirs", 5)
	for _, c := range []*nodes{ours, theirs} {
		peers, err := c.peers(t)
		check(t, err)
		if len(peers) != 1 {
			t.Errorf("a cluster of one has the servers %v", peers)
		}
	}
	theirs.rota(t, "job", "show", "ours-000").want(t, 3)
	if err := fresh.Ready(); err == nil {
		t.Error("a node of another cluster's name serves")
	}
	fresh.stop(t, 15*time.Second)
}

// Nothing listens beyond loopback in clear text unless that is requested explicitly.
func TestOpenAddressRefused(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--api", "--raft", "--gossip", "--admin"} {
		n := newNode(t, "n1", "--bootstrap-expect", "1")
		_, port, _ := strings.Cut(freeAddress(t), ":")
		n.Flags = append(n.Flags, flag, "0.0.0.0:"+port)
		n.refused(t, flag, "--insecure", "--tls-cert", "--gossip-key-file")
	}
	n := newNode(t, "n1", "--bootstrap-expect", "1", "--insecure")
	_, port, _ := strings.Cut(n.API, ":")
	n.Flags = append(n.Flags, "--api", "0.0.0.0:"+port)
	n.start(t)
	n.awaitReady(t)
	const warning = "everyone who reaches these addresses can read and change everything and pose as a node"
	contains(t, "the log", n.Stderr.String(), warning)
	status := command(t, nil, "", "cluster", "status", "--addr", "127.0.0.1:"+port).want(t, 0)
	contains(t, "the status", status.stdout, warning)
	n.stop(t, 15*time.Second)
}

// A file of a newer format, or a damaged one, is refused by name, as a backup and as a node's own snapshot; the only
// snapshot is indispensable.
func TestSnapshotRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	submitTo(t, c.dial(t), "default", "kept", 50)
	backup := filepath.Join(t.TempDir(), "backup")
	c.rota(t, "operator", "snapshot", "save", backup).want(t, 0)
	whole, err := os.ReadFile(backup)
	check(t, err)

	newer := writeFile(t, backup+"-newer", string(newerFormat(t, whole)))
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 0x10
	for path, text := range map[string]string{
		newer: "newer", writeFile(t, backup+"-flipped", string(flipped)): "",
		writeFile(t, backup+"-short", string(whole[:len(whole)-7])): "",
		writeFile(t, backup+"-none", "PK\x03\x04 no snapshot"):      "not a rota snapshot",
	} {
		r := command(t, nil, "", "operator", "snapshot", "inspect", path).want(t, 1)
		contains(t, "stderr", r.stderr, text)
		command(t, nil, "", "operator", "snapshot", "restore", path, "--data", filepath.Join(t.TempDir(), "d"),
			"--node", "r").want(t, 1)
	}
	for _, one := range []struct {
		name   string
		change func(state []byte) []byte
		fixed  bool // the store's own checksum is made to match
		text   string
	}{
		{"newer", func(b []byte) []byte { return newerFormat(t, b) }, true, "newer"},
		{"damaged", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, false, "checksum"},
	} {
		n := newNode(t, "r-"+one.name, "--bootstrap-expect", "1")
		command(t, nil, "", "operator", "snapshot", "restore", backup, "--data", n.Dir, "--node", n.ID, "--raft",
			n.Raft).want(t, 0)
		changeSnapshot(t, n.Dir, one.change, one.fixed)
		n.refused(t, one.text)
	}
}

// newerFormat raises the format of a snapshot file, its header's checksum with it.
func newerFormat(t testing.TB, whole []byte) []byte {
	t.Helper()
	const magic = 8
	b := slices.Clone(whole)
	header := magic + 8 + int(binary.LittleEndian.Uint32(b[magic+4:]))
	binary.LittleEndian.PutUint32(b[magic:], binary.LittleEndian.Uint32(b[magic:])+1)
	binary.LittleEndian.PutUint32(b[header:], crc32.Checksum(b[:header], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// changeSnapshot changes the state of a node's only snapshot.
func changeSnapshot(t *testing.T, dir string, change func([]byte) []byte, fix bool) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("%d snapshots are there, want one", len(found))
	}
	state, err := os.ReadFile(found[0])
	check(t, err)
	state = change(state)
	check(t, os.WriteFile(found[0], state, 0o600))
	if !fix {
		return
	}
	path := filepath.Join(filepath.Dir(found[0]), "meta.json")
	text, err := os.ReadFile(path)
	check(t, err)
	var meta map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	check(t, d.Decode(&meta))
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	_, _ = sum.Write(state)
	meta["CRC"], meta["Size"] = sum.Sum(nil), len(state)
	text, err = json.Marshal(meta)
	check(t, err)
	check(t, os.WriteFile(path, text, 0o600))
}
