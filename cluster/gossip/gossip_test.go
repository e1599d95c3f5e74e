package gossip

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rotasched/rota"
)

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) {
	// memberlist's last probe ends by its own timeout, shortly after Shutdown.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// longest is far longer than any step here takes on a loaded machine.
const longest = 20 * time.Second

func testMeta(id rota.NodeID) Meta {
	return Meta{ClusterID: "k1", API: string(id) + ":6470", Raft: string(id) + ":6471", Version: "1.2.3",
		BootstrapExpect: 3, HasState: true, Identity: strings.Repeat("0b", identityBytes)}
}

func startGossip(t *testing.T, id rota.NodeID, change func(o *Options)) *Gossip {
	t.Helper()
	opts := Options{ID: id, Cluster: "c1", Bind: "127.0.0.1:0", Meta: testMeta(id),
		joinBackoffMax: 200 * time.Millisecond}
	if change != nil {
		change(&opts)
	}
	g, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// waitMembers waits until the members satisfy want.
func waitMembers(t *testing.T, g *Gossip, what string, want func(alive map[rota.NodeID]Member) bool) {
	t.Helper()
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	for {
		alive := make(map[rota.NodeID]Member)
		for _, member := range g.Members() {
			if member.Alive {
				alive[member.ID] = member
			}
		}
		if want(alive) {
			return
		}
		select {
		case <-g.Changed():
		case <-deadline.C:
			t.Fatalf("%s did not happen; members: %+v", what, g.Members())
		}
	}
}

func TestGossipFindsNodes(t *testing.T) {
	t.Parallel()
	began := time.Now()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("4f", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startGossip(t, "a", func(o *Options) { o.KeyFile = key })
	join := []string{a.Addr()}
	b := startGossip(t, "b", func(o *Options) { o.KeyFile, o.Join = key, join })
	c := startGossip(t, "c", func(o *Options) { o.KeyFile, o.Join = key, join })
	for _, g := range []*Gossip{a, b, c} {
		waitMembers(t, g, "finding each other", func(alive map[rota.NodeID]Member) bool { return len(alive) == 3 })
	}
	t.Logf("three nodes found each other in %s", time.Since(began))
	for _, member := range c.Members() {
		if want := testMeta(member.ID); !reflect.DeepEqual(member.Meta, want) {
			t.Errorf("%s has metadata %+v, want %+v", member.ID, member.Meta, want)
		}
	}

	if err := b.UpdateMeta(func(m *Meta) { m.Version = "2.0.0" }); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, c, "hearing of new metadata", func(alive map[rota.NodeID]Member) bool {
		return alive["b"].Version == "2.0.0"
	})
	if err := b.UpdateMeta(func(m *Meta) { m.API = strings.Repeat("x", 200) }); err == nil {
		t.Error("metadata too long for a packet is accepted")
	}

	if err := errors.Join(b.Leave(5*time.Second), b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	waitMembers(t, c, "leaving", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
}

func TestGossipJoinsWhoComesLater(t *testing.T) {
	t.Parallel()
	first := startGossip(t, "a", nil)
	address := first.Addr()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	b := startGossip(t, "b", func(o *Options) { o.Join = []string{"no-such-name.invalid:1", address} })
	again := startGossip(t, "a", func(o *Options) { o.Bind = address })
	waitMembers(t, again, "being joined", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
	waitMembers(t, b, "joining", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
}

// syncBuffer collects log lines of many goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestGossipKeepsClustersApart explicitly joins two clusters of one name.
func TestGossipKeepsClustersApart(t *testing.T) {
	t.Parallel()
	var lines syncBuffer
	a := startGossip(t, "a", func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	})
	b := startGossip(t, "b", func(o *Options) { o.Meta.ClusterID = "k2" })
	for range 3 {
		if _, err := b.list.Join([]string{a.Addr()}); err == nil {
			t.Error("the clusters were merged")
		}
	}
	for _, g := range []*Gossip{a, b} {
		if members := g.Members(); len(members) != 1 {
			t.Errorf("members %+v", members)
		}
	}
	if n := strings.Count(lines.String(), "a node is refused"); n != 1 {
		t.Errorf("%d lines about it: %s", n, lines.String())
	}

	other := startGossip(t, "o", func(o *Options) { o.Cluster = "c2" })
	if _, err := other.list.Join([]string{a.Addr()}); err == nil {
		t.Error("clusters of two names were merged")
	}

	// A node that knew neither met both; once it learns its own, the other is gone.
	c := startGossip(t, "c", func(o *Options) { o.Meta.ClusterID = "" })
	if _, err := c.list.Join([]string{b.Addr()}); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, c, "meeting b", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
	if err := c.UpdateMeta(func(m *Meta) { m.ClusterID = "k1" }); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, c, "dropping b", func(alive map[rota.NodeID]Member) bool { return len(alive) == 1 })
}

func TestGossipTellsOfConflicts(t *testing.T) {
	t.Parallel()
	type pair struct{ existing, other Member }
	for name, change := range map[string]func(o *Options){
		"another address": func(*Options) {},
		"another data directory": func(o *Options) {
			o.Meta.Identity = strings.Repeat("0c", identityBytes)
		},
		"an emptied data directory": func(o *Options) { o.Meta.HasState = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan pair, 8)
			a := startGossip(t, "a", func(o *Options) {
				o.OnConflict = func(existing, other Member) { seen <- pair{existing, other} }
			})
			b := startGossip(t, "b", func(o *Options) { o.Join = []string{a.Addr()} })
			waitMembers(t, a, "b joining", func(alive map[rota.NodeID]Member) bool { return len(alive) == 2 })
			double := startGossip(t, "b", func(o *Options) {
				o.Join = []string{a.Addr()}
				change(o)
			})
			select {
			case got := <-seen:
				if got.existing.ID != "b" || got.other.ID != "b" || got.existing.Gossip != b.Addr() ||
					got.other.Gossip != double.Addr() {
					t.Errorf("reported %+v", got)
				}
			case <-time.After(longest):
				t.Error("nothing was reported")
			}
		})
	}
}

func TestGossipRefusesToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, short := filepath.Join(dir, "open"), filepath.Join(dir, "short")
	if err := errors.Join(os.WriteFile(open, make([]byte, 32), 0o600), os.Chmod(open, 0o644),
		os.WriteFile(short, []byte("12345"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(o *Options)
		kind   rota.Kind
		want   string
	}{
		"in the open without a key": {func(o *Options) { o.Bind = ":0" }, rota.KindDenied, "--insecure"},
		"with a key for all to see": {func(o *Options) { o.KeyFile = open }, rota.KindDenied, "chmod 600"},
		"with an invalid key":       {func(o *Options) { o.KeyFile = short }, rota.KindInvalid, "openssl rand"},
		"without a name":            {func(o *Options) { o.ID = "" }, rota.KindInvalid, "node id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{ID: "a", Cluster: "c1", Bind: "127.0.0.1:0", Meta: testMeta("a")}
			c.change(&opts)
			g, err := Start(opts)
			if err == nil {
				g.Close()
			}
			if rota.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestGossipKey(t *testing.T) {
	t.Parallel()
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(i * 7)
	}
	for _, n := range []int{16, 24, 32} {
		key := raw[:n]
		for _, text := range []string{string(key), hex.EncodeToString(key) + "\n",
			base64.StdEncoding.EncodeToString(key) + "\r\n", base64.RawURLEncoding.EncodeToString(key)} {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			k, err := readKeys(path, slog.New(slog.DiscardHandler))
			if err != nil || !bytes.Equal(k.ring.GetPrimaryKey(), key) {
				t.Errorf("%q gives %x, %v", text, k.ring.GetPrimaryKey(), err)
			}
		}
	}
}

func TestGossipMetaBytes(t *testing.T) {
	t.Parallel()
	got, err := encodeMeta(Meta{ClusterID: "k", API: "a:1", Raft: "r:2", Version: "v",
		BootstrapExpect: 258, HasState: true, Identity: strings.Repeat("0b", identityBytes)})
	want := "\x01\x00\x00\x01\x01\x02" + strings.Repeat("\x0b", identityBytes) + "\x01k\x03a:1\x03r:2\x00\x01v"
	if err != nil || string(got) != want {
		t.Errorf("got  %q, %v\nwant %q: the version must change with the bytes", got, err, want)
	}
	// A later binary may use the reserved places.
	known, _ := decodeMeta(got)
	later := append(bytes.Clone(got), "\x03and more"...)
	later[1], later[2], later[3] = 1, 2, later[3]|0x80
	if m, err := decodeMeta(later); err != nil || m != known || m.Version != "v" || !m.HasState {
		t.Errorf("a later binary's metadata is read as %+v, %v", m, err)
	}
	later[0]++
	if _, err := decodeMeta(later); err == nil || !strings.Contains(err.Error(), "version 2, this binary knows 1") {
		t.Errorf("another version of it: %v", err)
	}
	longest := Meta{ClusterID: rota.ClusterID(strings.Repeat("k", textMax)),
		Identity: strings.Repeat("0b", identityBytes)}
	longest.API = string(longest.ClusterID)
	longest.Raft, longest.Admin, longest.Version = longest.API, longest.API, longest.API
	if got, err := encodeMeta(longest); err != nil || len(got) > metaMax {
		t.Errorf("the longest metadata has %d bytes, %v", len(got), err)
	}
}

// FuzzGossipMeta decodes arbitrary input.
func FuzzGossipMeta(f *testing.F) {
	for _, id := range []rota.NodeID{"a", "node-with-a-long-name.example.org"} {
		data, err := encodeMeta(testMeta(id))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMeta(data)
		if err != nil {
			return
		}
		again, err := encodeMeta(m)
		if err != nil {
			t.Fatal(err)
		}
		plain := bytes.Clone(data[:min(len(again), len(data))]) // without fields that a later binary may have added
		plain[1], plain[2], plain[3] = 0, 0, plain[3]&flagState
		if !bytes.Equal(again, plain) {
			t.Fatalf("%q comes back as %q", data, again)
		}
	})
}
