package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// rotFlips is the number of flips in CI; ROTA_ROT overrides it.
	rotFlips = 200
	// maxRot is the maximum time of a start over damage, rotBytes how much it may allocate beyond twice as much as a
	// start of an undamaged node.
	maxRot   = 20 * time.Second
	rotBytes = 64 << 20
)

// TestBitRot damages one place of a real node's data directory at a time, and opens it as a node does: data directory,
// preflight, stores, archive, the newest snapshot, the log after it, a scrub. Damage must be rejected with a clear
// error, or found by the scrub, or change nothing. Code that needs raft's own goroutines is not run here:
// TestBitRot_aWholeNode does that.
func TestBitRot(t *testing.T) {
	long(t)
	sound := rotten(t)
	want := sound.open(t, t.TempDir(), nil)
	if want.err != nil || want.panicked != nil || len(want.found) > 0 {
		t.Fatalf("an undamaged directory: %+v", want)
	}
	flips := rotFlips
	if text := os.Getenv("ROTA_ROT"); text != "" {
		var err error
		if flips, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	if text := os.Getenv("ROTA_ROT_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("seed %d: repeat with ROTA_ROT_SEED=%d ROTA_ROT=%d", seed, seed, flips)
	random := rand.New(rand.NewPCG(seed, 0))
	classes := sound.classes()
	tally := make(map[string]map[string]int)
	dir := t.TempDir()
	for i := range flips {
		class := classes[i%len(classes)] // each class equally often
		r := class.draw(random)
		got := sound.open(t, filepath.Join(dir, strconv.Itoa(i)), &r)
		if got.hung { // and takes memory, perhaps: the stacks say where
			panic(fmt.Sprintf("seed %d, flip %d: %s: the start hangs", seed, i, r))
		}
		outcome, fault := got.judge(want, r)
		if fault != "" {
			t.Errorf("flip %d: %s: %s", i, r, fault)
		}
		if tally[class.name] == nil {
			tally[class.name] = make(map[string]int)
		}
		tally[class.name][outcome]++
		_ = os.RemoveAll(filepath.Join(dir, strconv.Itoa(i)))
	}
	for _, class := range classes {
		t.Logf("%-28s %v", class.name, tally[class.name])
	}
}

// rotSpot is one damaged place.
type rotSpot struct {
	file   string // within the directory
	how    string // bit, zero or cut
	at     int64
	bit    uint8
	length int64
}

func (d rotSpot) String() string {
	switch d.how {
	case "cut":
		return fmt.Sprintf("%s cut off at byte %d", d.file, d.at)
	case "zero":
		return fmt.Sprintf("%s: %d bytes from %d on are zero", d.file, d.length, d.at)
	}
	return fmt.Sprintf("%s: bit %d of byte %d", d.file, d.bit, d.at)
}

// apply damages a file's content.
func (d rotSpot) apply(data []byte) []byte {
	switch d.how {
	case "cut":
		return data[:d.at]
	case "zero":
		clear(data[d.at:min(d.at+d.length, int64(len(data)))])
	default:
		data[d.at] ^= 1 << d.bit
	}
	return data
}

// judge returns the outcome of damage, and the faults found.
func (got opened) judge(want opened, d rotSpot) (outcome, fault string) {
	switch {
	case got.panicked != nil:
		return "panicked", fmt.Sprintf("a panic escapes: %v\n%s", got.panicked, got.stack)
	case got.allocated > 2*want.allocated+rotBytes:
		return "swallowed", fmt.Sprintf("it allocated %d bytes, a sound start %d", got.allocated, want.allocated)
	case got.err != nil:
		return "refused", refusalFault(got.err, d)
	}
	if got.digest != want.digest || got.index != want.index || got.members != want.members || got.vote != want.vote ||
		got.identity != want.identity {
		return "applied", fmt.Sprintf("the state is another one: %+v, %+v was written", got.opening, want.opening)
	}
	lost := 0
	for key, record := range got.records {
		if want.records[key] != record {
			return "served", fmt.Sprintf("%s is served as %q, %q was written", key, record, want.records[key])
		}
	}
	for key := range want.records {
		if _, here := got.records[key]; !here {
			lost++
		}
	}
	switch {
	case lost > 0 && len(got.found) == 0:
		return "lost", fmt.Sprintf("%d ended jobs or events are gone without a word", lost)
	case len(got.found) > 0:
		return "found", ""
	}
	return "harmless", ""
}

// refusalFault requires a typed error that names the file and the remedy.
func refusalFault(err error, d rotSpot) string {
	if _, ok := errors.AsType[*rota.Error](err); !ok {
		return fmt.Sprintf("the refusal is of no type: %v", err)
	}
	name := filepath.Base(d.file)
	if strings.Contains(d.file, string(filepath.Separator)) {
		name = strings.Split(d.file, string(filepath.Separator))[1] // the snapshot's directory
	}
	text := err.Error()
	todo := []string{"Move", "move it away", "start again", "Start", "start the", "start once", "start a newer"}
	if !strings.Contains(text, name) && d.file != "node.json" && d.file != "LOCK" {
		return fmt.Sprintf("the refusal does not name %s: %v", name, err)
	}
	if !slices.ContainsFunc(todo, func(word string) bool { return strings.Contains(text, word) }) {
		return fmt.Sprintf("the refusal does not say what to do: %v", err)
	}
	return ""
}

// opened is the result of opening a directory.
type opened struct {
	opening
	err       error
	panicked  any
	stack     string
	hung      bool
	allocated uint64
}

// opening holds the contents of a node once it is open.
type opening struct {
	digest   rota.Digest
	index    rota.Index
	members  string
	vote     string
	identity string
	// records are ended jobs and events by name, found lists what the scrub reported as damaged or the archive as
	// lacking.
	records map[string]string
	found   []string
}

// open opens a copy with the given damage.
func (s *soundDir) open(t *testing.T, dir string, d *rotSpot) (got opened) {
	t.Helper()
	s.copyTo(t, dir, d)
	done := make(chan struct{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		defer close(done)
		defer func() {
			if got.panicked = recover(); got.panicked != nil {
				stack := make([]byte, 4<<10)
				got.stack = string(stack[:runtime.Stack(stack, false)])
			}
		}()
		got.opening, got.err = s.openAsNode(dir)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), maxRot)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		return opened{hung: true}
	}
	runtime.ReadMemStats(&after)
	got.allocated = after.TotalAlloc - before.TotalAlloc
	return got
}

// TestBitRot_aWholeNode starts whole nodes over damage, including raft: a node that starts returns each job as written,
// or reports that it cannot.
func TestBitRot_aWholeNode(t *testing.T) {
	t.Parallel()
	sound := rotten(t)
	want := sound.open(t, t.TempDir(), nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	classes := sound.classes()
	for range wholeNodes {
		d := classes[random.IntN(len(classes))].draw(random)
		t.Run(d.String(), func(t *testing.T) { // one after another: they share the address
			b := newBench(t)
			b.fatal = true
			b.plan("n1", 1)
			cfg := b.addrs["n1"]
			cfg.AdoptData, cfg.AuditRetention = true, sound.cfg.AuditRetention
			cfg.Raft = sound.cfg.Raft // it is in raft's configuration
			b.addrs["n1"] = cfg
			sound.copyTo(t, cfg.Data, &d)
			n, err := b.tryStart("n1")
			if err != nil {
				if fault := refusalFault(err, d); fault != "" {
					t.Errorf("seed %d: %s", seed, fault)
				}
				return
			}
			b.eventually("it serves or gives itself up", func() bool {
				return n.Ready() == nil || n.fatalErr.Load() != nil
			})
			if n.fatalErr.Load() == nil {
				toldAsWritten(t, n, want.records)
			}
		})
	}
}

// wholeNodes is how many nodes TestBitRot_aWholeNode starts.
const wholeNodes = 8

func toldAsWritten(t *testing.T, n *Node, want map[string]string) {
	t.Helper()
	for key, state := range want {
		id, ok := strings.CutPrefix(key, "state of ")
		if !ok {
			continue
		}
		job, _, err := n.Job(within(t, ample), rota.JobID(id), peer.ReadOptions{})
		if err != nil && rota.KindOf(err) != rota.KindUnavailable || err == nil && job.State.String() != state {
			t.Errorf("job %s is returned as %s, %v; it was %s", id, job.State, err, state)
		}
	}
	n.replica.Mu.RLock()
	defer n.replica.Mu.RUnlock()
	if faults := n.replica.Machine.Check(); len(faults) > 0 {
		t.Errorf("the state violates invariants: %v", faults)
	}
}
