package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/cluster/gossip"
	"github.com/rotasched/rota/cluster/raftstore/wal"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// soundDir is a real node's data directory, in memory.
type soundDir struct {
	cfg   Config
	files map[string][]byte // by path within
	names []string          // in order
}

// rotten runs a node for a while and reads the files it leaves: jobs in all states, a workflow, an archive, events, two
// snapshots and one kept for audits.
func rotten(t *testing.T) *soundDir {
	t.Helper()
	b := newBench(t)
	b.plan("n1", 1)
	cfg := b.addrs["n1"]
	cfg.AuditRetention = 100
	b.addrs["n1"] = cfg
	b.startPlanned()
	n := b.leader()
	h := newHand(t, n, "w1", 64)
	for round := range 3 {
		name := fmt.Sprintf("r%d", round)
		submitAll(t, n, specs(name, 40))
		flow := rota.WorkflowSpec{ID: rota.WorkflowID(name), Nodes: []rota.NodeSpec{rota.NewNodeSpec("a", "work", nil),
			rota.NewNodeSpec("b", "work", nil, "a")}}
		if _, err := n.SubmitWorkflow(within(t, ample), flow); err != nil {
			t.Fatal(err)
		}
		for _, a := range h.take(20) {
			h.do(rota.VerbComplete, a)
		}
		if _, err := n.Cancel(within(t, ample), []rota.JobID{rota.JobID(name + "-00039"),
			rota.JobID(name + "-00038")}); err != nil {
			t.Fatal(err)
		}
		if round < 2 {
			if err := n.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.events.Flush()
	if err := n.archive.Flush(); err != nil {
		t.Fatal(err)
	}
	b.stop("n1")
	s := &soundDir{cfg: cfg, files: make(map[string][]byte)}
	err := filepath.WalkDir(cfg.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(cfg.Data, path)
		s.names = append(s.names, name)
		s.files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// copyTo writes the directory with the given damage.
func (s *soundDir) copyTo(t *testing.T, dir string, d *rotSpot) {
	t.Helper()
	for _, name := range s.names {
		data := s.files[name]
		if d != nil && d.file == name {
			data = d.apply(append([]byte(nil), data...))
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// noPeers is an implementation of Peers that must never be called.
type noPeers struct{ Peers }

func (noPeers) Calls(string, func(rota.NodeID) error) {}

// lonely finds no other nodes.
type lonely struct{ gossip.Discovery }

func (lonely) Leave(time.Duration) error { return nil }
func (lonely) Close() error              { return nil }

// openAsNode opens a directory as Start does, and performs raft's steps: it restores the newest snapshot and applies
// the log after it.
func (s *soundDir) openAsNode(dir string) (o opening, err error) {
	cfg := s.cfg
	cfg.Data, cfg.AdoptData, cfg.ScrubEvery = dir, true, -1 // a deliberate copy
	cfg.Environment.Listen = func(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	cfg.Environment.Discover = func(gossip.Options) (gossip.Discovery, error) { return lonely{}, nil }
	var fatal error
	cfg.Fatal = func(err error) { fatal = err }
	n, err := newNode(cfg, noPeers{})
	if err != nil {
		return o, err
	}
	defer n.closeAll()
	if err := n.open(); err != nil {
		return o, err
	}
	if err := s.restoreNewest(n, &o); err != nil {
		return o, err
	}
	last, err := n.stores.Log.LastIndex()
	if err != nil {
		return o, err
	}
	for index := n.replica.Applied.Load() + 1; index <= last; index++ {
		var entry raft.Log
		if err := n.stores.Log.GetLog(index, &entry); err != nil {
			return o, errors.Join(fatal, err)
		}
		switch entry.Type {
		case raft.LogCommand:
			if err, failed := (adapter{n}).Apply(&entry).(error); failed {
				return o, err
			}
		case raft.LogConfiguration:
			o.members = fmt.Sprint(raft.DecodeConfiguration(entry.Data))
		}
	}
	o.found = append(o.found, scrubbed(n)...)
	head := n.replica.Machine.Head()
	o.digest, o.index, o.identity = head.Digest, head.Index, n.data.Identity()+"/"+string(n.data.ClusterID())
	term, _ := n.stores.Stable.GetUint64([]byte("CurrentTerm"))
	vote, _ := n.stores.Stable.Get([]byte("LastVoteCand"))
	o.vote = fmt.Sprintf("%d %s %+v", term, vote, n.data.Rebuild())
	o.records, err = toldBy(n)
	return o, errors.Join(err, fatal)
}

// restoreNewest does the same as hashicorp/raft at its start.
func (s *soundDir) restoreNewest(n *Node, o *opening) error {
	kept, err := n.snapshots.List()
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return nil
	}
	meta, content, err := n.snapshots.Open(kept[0].ID)
	if err != nil {
		return err
	}
	if err := (adapter{n}).Restore(content); err != nil {
		return err
	}
	o.members = fmt.Sprint(meta.Configuration)
	return nil
}

// scrubbed reads everything as the scrubber does and returns its findings, and the records that the node knows to be
// missing.
func scrubbed(n *Node) (found []string) {
	for what, do := range map[string]func(int, func(string, string), func(int) bool) error{"archive": n.historyFile.ScrubJobs,
		"events": n.historyFile.ScrubEvents} {
		damages := 0
		if err := do(1<<20, func(string, string) { damages++ }, func(int) bool { return true }); err != nil {
			found = append(found, what+": "+err.Error())
		}
		if damages > 0 {
			found = append(found, fmt.Sprintf("%s: %d damaged", what, damages))
		}
	}
	if spans := n.archive.Lacks(10); len(spans) > 0 {
		found = append(found, fmt.Sprintf("lacks %v", spans))
	}
	if from, to := n.historyFile.Events.Missing(0, n.replica.Machine.Head().Events); from < to {
		found = append(found, fmt.Sprintf("lacks events %d to %d", from, to))
	}
	kept, err := filepath.Glob(filepath.Join(n.cfg.Data, audit.Dir, "*.snap"))
	if err != nil {
		found = append(found, err.Error())
	}
	for _, file := range kept {
		index := rota.Index(0)
		m, err := loadState(file)
		if err != nil {
			found = append(found, "audit: "+err.Error())
		} else if _, err := fmt.Sscanf(filepath.Base(file), "%d-", &index); err != nil || m.Head().Index != index {
			found = append(found, fmt.Sprintf("audit: state of %d under the name of %d", m.Head().Index, index))
		}
	}
	for _, violation := range n.archive.Check(freeze(&n.replica)) {
		found = append(found, "verify: "+violation)
	}
	return found
}

// toldBy returns the content of the archive's file: ended jobs, by number and by id, and events.
func toldBy(n *Node) (map[string]string, error) {
	told := make(map[string]string)
	slice, err := n.historyFile.Jobs.Range(1, 1<<40, 1<<30)
	if err != nil {
		return nil, err
	}
	for _, r := range slice.Records {
		told[fmt.Sprintf("record %d", r.Seq)] = string(r.Data)
	}
	told["floor"] = fmt.Sprint(slice.Floor)
	for round := range 3 {
		for i := range 40 {
			id := rota.JobID(fmt.Sprintf("r%d-%05d", round, i))
			if mark, ok, err := n.historyFile.Jobs.Mark(id); err == nil && ok {
				told["state of "+string(id)] = mark.State.String()
			}
		}
	}
	n.historyFile.Events.Walk(func(_, _ rota.Index, entries []archive.EventEntry, err error) bool {
		for i := range entries {
			told[fmt.Sprintf("events of entry %d", entries[i].Index)] = fmt.Sprint(entries[i])
		}
		return true
	})
	return told, nil
}

// rotClass is a kind of place.
type rotClass struct {
	name string
	draw func(*rand.Rand) rotSpot
}

// classes returns all kinds of places in the directory.
func (s *soundDir) classes() (all []rotClass) {
	for _, name := range s.names {
		label := name
		if parts := strings.Split(name, string(filepath.Separator)); len(parts) > 1 {
			label = parts[0] + "/" + parts[len(parts)-1]
			if parts[0] == audit.Dir {
				label = audit.Dir + "/*.snap"
			}
		}
		size := int64(len(s.files[name]))
		if size == 0 {
			continue
		}
		used := size
		if strings.HasSuffix(name, ".db") {
			used = boltUsed(s.files[name]) // the rest is only preallocated
		}
		add := func(class string, draw func(*rand.Rand) rotSpot) {
			all = append(all, rotClass{label + " " + class, draw})
		}
		flipWithin := func(places []int64) func(*rand.Rand) rotSpot {
			return func(r *rand.Rand) rotSpot {
				return rotSpot{file: name, how: "bit", at: places[r.IntN(len(places))], bit: uint8(r.IntN(8))}
			}
		}
		add("cut", func(r *rand.Rand) rotSpot { return rotSpot{file: name, how: "cut", at: r.Int64N(used)} })
		add("sector", func(r *rand.Rand) rotSpot {
			return rotSpot{file: name, how: "zero", at: r.Int64N(used) &^ 511, length: 512}
		})
		places := map[string][]int64(nil)
		switch filepath.Ext(name) {
		case ".db":
			places = boltPlaces(s.files[name])
		case wal.Suffix:
			places = walPlaces(s.files[name])
		}
		if places != nil {
			for _, class := range slices.Sorted(maps.Keys(places)) {
				add(class, flipWithin(places[class]))
			}
			continue
		}
		add("anywhere", func(r *rand.Rand) rotSpot {
			return rotSpot{file: name, how: "bit", at: r.Int64N(size), bit: uint8(r.IntN(8))}
		})
		if size > 256 {
			add("begin and end", func(r *rand.Rand) rotSpot {
				at := r.Int64N(64)
				if r.IntN(2) == 0 {
					at = size - 1 - at
				}
				return rotSpot{file: name, how: "bit", at: at, bit: uint8(r.IntN(8))}
			})
		}
	}
	return all
}

// walPlaces sorts the bytes of a file of the log into kinds.
func walPlaces(data []byte) map[string][]int64 {
	places := make(map[string][]int64)
	put := func(class string, from, to int) {
		for at := from; at < to; at++ {
			places[class] = append(places[class], int64(at))
		}
	}
	put("header", 0, 32)
	for at := 32; at+32 <= len(data); {
		size := 32 + int(binary.LittleEndian.Uint32(data[at+16:])) + int(binary.LittleEndian.Uint16(data[at+24:]))
		next := at + (size+7)/8*8
		put("frame", at, at+16)
		put("lengths", at+16, at+20)
		put("lengths", at+24, at+26)
		put("checksums", at+20, at+24)
		put("checksums", at+28, at+32)
		put("types", at+26, at+28)
		put("data", at+32, at+size)
		put("padding", at+size, next)
		at = next
	}
	return places
}

// The layout of a bbolt file (its internal/common: page.go, meta.go, inode.go).
const (
	bboltPageHeader = 16
	bboltHeadBytes  = 64
	bboltElement    = 16
	bboltBranch     = 0x01
	bboltLeaf       = 0x02
)

// boltUsed returns how much of a bbolt file has ever been written.
func boltUsed(data []byte) (used int64) {
	pageSize := int64(binary.NativeEndian.Uint32(data[bboltPageHeader+8:]))
	for _, head := range []int64{0, pageSize} {
		pages := int64(binary.NativeEndian.Uint64(data[head+bboltPageHeader+40:]))
		used = max(used, min(pages*pageSize, int64(len(data))))
	}
	return used
}

// boltPlaces sorts the bytes of a bbolt file into kinds.
func boltPlaces(data []byte) map[string][]int64 {
	places := make(map[string][]int64)
	put := func(class string, from, to int) {
		for at := from; at < min(to, len(data)); at++ {
			places[class] = append(places[class], int64(at))
		}
	}
	pageSize := int(binary.NativeEndian.Uint32(data[bboltPageHeader+8:]))
	put("heads", 0, bboltPageHeader+bboltHeadBytes)
	put("heads", pageSize, pageSize+bboltPageHeader+bboltHeadBytes)
	for page := 2 * pageSize; page < len(data); {
		kind := binary.NativeEndian.Uint16(data[page+8:])
		count := int(binary.NativeEndian.Uint16(data[page+10:]))
		run := int(binary.NativeEndian.Uint32(data[page+12:])) + 1
		if kind != bboltBranch && kind != bboltLeaf {
			put("other pages", page, page+pageSize)
			page += pageSize
			continue
		}
		name := map[uint16]string{bboltBranch: "branch", bboltLeaf: "leaf"}[kind]
		put(name+" headers", page, page+bboltPageHeader)
		put(name+" elements", page+bboltPageHeader, page+bboltPageHeader+count*bboltElement)
		at := page + bboltPageHeader + count*bboltElement
		for i := range count {
			element := data[page+bboltPageHeader+i*bboltElement:]
			keyBytes, valueBytes := int(binary.NativeEndian.Uint32(element[4:])), 0
			if kind == bboltLeaf {
				keyBytes, valueBytes = int(binary.NativeEndian.Uint32(element[8:])), int(binary.NativeEndian.Uint32(
					element[12:]))
			}
			put(name+" keys", at, at+keyBytes)
			put("values", at+keyBytes, at+keyBytes+valueBytes)
			at += keyBytes + valueBytes
		}
		put("slack", at, page+run*pageSize)
		page += run * pageSize
	}
	return places
}

// loadState reads a snapshot file into a machine.
func loadState(path string) (*fsm.Machine, error) {
	f, err := snapshot.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := snapshot.Read(f, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		return fsm.NewLoader(info)
	})
	return m, err
}
