package upgrade

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/test/rig"
)

var cut = flag.String("cut", "", "write the folder of a release, such as v0.2.0, that has none yet")

// The files of a release.
const (
	logFile, digestFile = "log.bin", "log.txt"
	stateFile           = "state.snap"
	dataFile            = "data.tgz"
	protocolFile        = "protocol.binpb"
	sumsFile            = "SHA256SUMS"
)

var files = []string{dataFile, logFile, digestFile, protocolFile, stateFile}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// present builds the binary of this tree.
func present(t testing.TB) string {
	t.Helper()
	binary, err := rig.Build(t.TempDir(), "-ldflags", "-X main.version=dev")
	check(t, err)
	return binary
}

// releases returns the folders of testdata.
func releases(t testing.TB) (dirs []string) {
	t.Helper()
	dirs, err := filepath.Glob("testdata/v*")
	check(t, err)
	if len(dirs) == 0 {
		t.Fatal("no release has its files in testdata")
	}
	return dirs
}

// TestReleases checks that the present code reads the files of each release, and speaks its protocols.
func TestReleases(t *testing.T) {
	t.Parallel()
	binary := present(t)
	if *cut != "" {
		writeRelease(t, filepath.Join("testdata", *cut), binary)
	}
	for _, dir := range releases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Run("no file has changed", func(t *testing.T) { sums(t, dir) })
			t.Run("the log has the digests that it had", func(t *testing.T) { replay(t, dir) })
			t.Run("the snapshot is the state at its end", func(t *testing.T) { thaw(t, dir) })
			t.Run("a node continues with the data directory", func(t *testing.T) { adopt(t, dir, binary) })
			t.Run("the protocols only grew", func(t *testing.T) {
				for _, fault := range shrunk(readProtocol(t, dir), spoken()) {
					t.Error(fault)
				}
			})
		})
	}
}

// sumsOf returns the expected SHA256SUMS of a folder.
func sumsOf(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, name))
		check(t, err)
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return b.String()
}

func sums(t *testing.T, dir string) {
	want, err := os.ReadFile(filepath.Join(dir, sumsFile))
	check(t, err)
	if got := sumsOf(t, dir); got != string(want) {
		t.Errorf("the files of a release stay as they were cut: the sums are\n%swanted\n%s", got, want)
	}
}

// replayed applies the log of a release, and calls each for every entry.
func replayed(t testing.TB, dir string, each func(index int, a fsm.Applied)) (m *fsm.Machine) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, logFile))
	check(t, err)
	m = fsm.New()
	for index := 1; len(data) > 0; index++ {
		n, term := int(binary.BigEndian.Uint32(data)), binary.BigEndian.Uint64(data[4:])
		a, err := m.Apply(rota.Index(index), term, data[12:12+n])
		check(t, err)
		data = data[12+n:]
		each(index, a)
	}
	return m
}

func replay(t *testing.T, dir string) {
	f, err := os.Open(filepath.Join(dir, digestFile))
	check(t, err)
	defer f.Close()
	want := map[int]string{}
	last := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		_, err := fmt.Sscan(lines.Text(), &last)
		check(t, err)
		want[last] = lines.Text()
	}
	applied := 0
	replayed(t, dir, func(index int, a fsm.Applied) {
		applied = index
		got := fmt.Sprintf("%d %s clock %d events %d", index, a.Digest, a.Clock, len(a.Events))
		if line, there := want[index]; there && line != got {
			t.Fatalf("the log means something else: %s, it was %s", got, line)
		}
	})
	if applied != last || last == 0 {
		t.Errorf("the log has %d entries, its digests go to %d", applied, last)
	}
}

func thaw(t *testing.T, dir string) {
	m := replayed(t, dir, func(int, fsm.Applied) {})
	f, err := os.Open(filepath.Join(dir, stateFile))
	check(t, err)
	defer f.Close()
	kinds := map[byte]int{}
	read, info, err := snapshot.ReadState(f, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		l, err := fsm.NewLoader(info)
		return counted{l, kinds}, err
	})
	check(t, err)
	if want := m.Freeze().Info().Digest; info.Digest != want || read.Freeze().Info().Digest != want {
		t.Errorf("the digest is %s, of the state that was read %s, after the log %s", info.Digest,
			read.Freeze().Info().Digest, want)
	}
	if faults := read.Check(); len(faults) > 0 {
		t.Errorf("invariants: %v", faults)
	}
	if len(kinds) < 20 {
		t.Errorf("it has rows of %d kinds alone: %v", len(kinds), kinds)
	}
	var again bytes.Buffer
	if _, err := snapshot.Write(&again, read.Freeze()); err != nil {
		t.Error(err)
	}
	if wrote, err := snapshot.Inspect(&again); err != nil || wrote.Records != info.Records ||
		wrote.RulesVersion != info.RulesVersion {
		t.Errorf("written again it is %+v, %v; it was %+v", wrote, err, info)
	}
}

// counted counts the rows that a state is loaded from.
type counted struct {
	*fsm.Loader
	kinds map[byte]int
}

func (c counted) Add(kind byte, record []byte) error {
	c.kinds[kind]++
	return c.Loader.Add(kind, record)
}

// node starts a one-node cluster on a directory.
func node(t testing.TB, dir, binary string, flags ...string) (*rig.Node, *client.Client) {
	t.Helper()
	n, err := rig.NewNode("n1", dir, binary)
	check(t, err)
	n.Flags = append([]string{"--bootstrap-expect", "1", "--snapshot-entries", "64", "--snapshot-every", "1s"},
		flags...)
	check(t, n.Start())
	t.Cleanup(n.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, n.AwaitReady(ctx))
	cl, err := client.Dial([]string{n.API}, client.WithInsecure())
	check(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	return n, cl
}

// The jobs of a release's node: this many that ended with an output, and that are pending.
const ended, waiting = 100, 10

func endedID(i int) rota.JobID   { return rota.JobID(fmt.Sprintf("ended-%03d", i)) }
func waitingID(i int) rota.JobID { return rota.JobID(fmt.Sprintf("waits-%03d", i)) }

// writeData runs a node of a binary for a while, and packs its directory.
func writeData(t testing.TB, binary string) []byte {
	t.Helper()
	dir := t.TempDir()
	n, cl := node(t, dir, binary)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	submit := func(id rota.JobID, kind rota.JobType) {
		spec := rota.NewJobSpec(kind, []byte(id))
		spec.ID = id
		_, err := cl.Submit(ctx, spec)
		check(t, err)
	}
	for i := range waiting {
		submit(waitingID(i), "nobody-works")
	}
	w, err := client.NewWorker(cl, rota.WorkerSpec{ID: "w1", Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 8})
	check(t, err)
	w.Handle("echo", func(_ context.Context, job *client.Job) (client.Result, error) {
		return client.Result{Output: job.Spec().Payload}, nil
	})
	working, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- w.Run(working) }()
	for i := range ended {
		submit(endedID(i), "echo")
	}
	check(t, rig.Until(ctx, func() error { return account(ctx, cl) }))
	stop()
	<-over
	check(t, rig.Until(ctx, func() error {
		if kept, _ := os.ReadDir(filepath.Join(n.Dir, "snapshots")); len(kept) == 0 {
			return errors.New("no snapshot yet")
		}
		return nil
	}))
	check(t, n.Life().Stop(30*time.Second))
	return pack(t, n.Dir)
}

// account compares the jobs of writeData with a node's answers.
func account(ctx context.Context, cl *client.Client) error {
	for i := range ended {
		j, err := cl.Job(ctx, endedID(i))
		if err != nil {
			return err
		}
		if j.State != rota.JobCompleted || string(j.Output) != string(j.ID) {
			return fmt.Errorf("%s is %s with output %q", j.ID, j.State, j.Output)
		}
	}
	for i := range waiting {
		j, err := cl.Job(ctx, waitingID(i))
		if err != nil {
			return err
		}
		if j.State != rota.JobQueued || string(j.Payload) != string(j.ID) {
			return fmt.Errorf("%s is %s with payload %q", j.ID, j.State, j.Payload)
		}
	}
	return nil
}

func adopt(t *testing.T, dir, binary string) {
	data, err := os.ReadFile(filepath.Join(dir, dataFile))
	check(t, err)
	into := t.TempDir()
	unpack(t, data, filepath.Join(into, "n1"))
	n, cl := node(t, into, binary, "--adopt-data")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, account(ctx, cl))
	spec := rota.NewJobSpec("nobody-works", nil)
	spec.ID = "after"
	_, err = cl.Submit(ctx, spec)
	check(t, err)
	verify(t, binary, n.API)
	check(t, n.Life().Stop(30*time.Second))
	audit(t, binary, n.Dir)
}

// pack packs a directory's content, except a process's own files.
func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	w := tar.NewWriter(z)
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "LOCK" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600,
			Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}))
	check(t, errors.Join(w.Close(), z.Close()))
	return b.Bytes()
}

func unpack(t testing.TB, data []byte, dir string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	check(t, err)
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		content, err := io.ReadAll(r)
		check(t, err)
		check(t, os.WriteFile(path, content, 0o600))
	}
}

// writeRelease writes the missing files of a folder.
func writeRelease(t testing.TB, dir, binary string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err == nil {
		t.Fatalf("%s is there already, and the files of a release stay as they are", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, logFile)); err != nil {
		t.Fatalf("the log comes first: that of the release before, or where rules are newer, what go test ./fsm -run TestGolden -update writes (%v)", err)
	}
	m := replayed(t, dir, func(int, fsm.Applied) {})
	var state bytes.Buffer
	_, err := snapshot.Write(&state, m.Freeze())
	check(t, err)
	for name, data := range map[string][]byte{stateFile: state.Bytes(), dataFile: writeData(t, binary),
		protocolFile: encodeProtocol(t)} {
		check(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	check(t, os.WriteFile(filepath.Join(dir, sumsFile), []byte(sumsOf(t, dir)), 0o644))
	if !slices.Contains(releases(t), dir) {
		t.Errorf("%s is not a release's folder", dir)
	}
}
