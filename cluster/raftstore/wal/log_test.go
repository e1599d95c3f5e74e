package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// owner keeps the head of a log under test.
type owner struct {
	dir  string
	head Head
	size int64
	// saving is called before a head is stored, nil for nothing.
	saving func(Head)
}

func (o *owner) open(t testing.TB) *Log {
	t.Helper()
	l, err := Open(o.dir, o.head, Options{NoSync: true, FileSize: o.size, SaveHead: o.save})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (o *owner) save(h Head) error {
	if o.saving != nil {
		o.saving(h)
	}
	o.head = h
	return nil
}

func newOwner(t testing.TB) *owner {
	return &owner{dir: filepath.Join(t.TempDir(), "log"), size: 2 << 10}
}

func entries(first, last, term uint64) (all []*raft.Log) {
	for index := first; index <= last; index++ {
		all = append(all, &raft.Log{Index: index, Term: term, Data: fmt.Appendf(nil, "payload-%d", index)})
	}
	return all
}

// read returns every entry of a log.
func read(t testing.TB, l *Log) (all []*raft.Log) {
	t.Helper()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	for index := first; index > 0 && index <= last; index++ {
		var e raft.Log
		err := l.GetLog(index, &e)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &e)
	}
	return all
}

func same(a, b []*raft.Log) bool {
	return slices.EqualFunc(a, b, func(a, b *raft.Log) bool {
		return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
			bytes.Equal(a.Extensions, b.Extensions)
	})
}

func ends(l []*raft.Log) string {
	if len(l) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d entries, %d to %d", len(l), l[0].Index, l[len(l)-1].Index)
}

// TestLog_againstAList compares a log with a list through appends of all sizes, gaps, cuts at both ends, marks and
// openings.
func TestLog_againstAList(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	o := newOwner(t)
	l := o.open(t)
	next, kept := uint64(1), []*raft.Log(nil)
	for round := range 3000 {
		var err error
		switch at := random.IntN(20); {
		case at < 10:
			if random.IntN(30) == 0 {
				next += random.Uint64N(5) // as after an installed snapshot
			}
			batch := entries(next, next+random.Uint64N(5), uint64(round+1))
			for _, e := range batch {
				e.Data = make([]byte, random.IntN(10)+random.IntN(3)*random.IntN(800))
				for i := range e.Data {
					e.Data[i] = byte(random.Uint32())
				}
				e.Extensions = bytes.Repeat([]byte{7}, random.IntN(3)*random.IntN(9))
				e.Type = raft.LogType(random.IntN(3))
			}
			err = l.StoreLogs(batch)
			kept, next = append(kept, batch...), batch[len(batch)-1].Index+1
		case at < 13 && len(kept) > 0:
			n := random.IntN(len(kept)) + 1
			err = l.DeleteRange(kept[0].Index, kept[n-1].Index)
			kept = kept[n:]
		case at < 16 && len(kept) > 0:
			n := random.IntN(len(kept))
			err = l.DeleteRange(kept[n].Index, next-1)
			kept, next = kept[:n], kept[n].Index
		case at == 16:
			err = l.SaveMark()
		case at == 17:
			err = l.Close()
			l = o.open(t)
		case at == 18 && len(kept) > 2:
			if err := l.DeleteRange(kept[1].Index, kept[len(kept)-2].Index); err == nil {
				t.Fatalf("seed %d, round %d: entries were cut out of the middle", seed, round)
			}
			if err := l.StoreLog(&raft.Log{Index: kept[len(kept)-1].Index}); err == nil {
				t.Fatalf("seed %d, round %d: an entry was written over", seed, round)
			}
		}
		if err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
		if got := read(t, l); !same(got, kept) {
			t.Fatalf("seed %d, round %d: the log has %s, want %s", seed, round, ends(got), ends(kept))
		}
		if found, err := Scan(o.dir, o.head); err != nil || found.Torn != 0 || found.unborn != "" {
			t.Fatalf("seed %d, round %d: %+v, %v", seed, round, found, err)
		}
	}
}

// tree is the content of a directory.
type tree map[string][]byte

func treeOf(t testing.TB, dir string) tree {
	t.Helper()
	files := make(tree)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[name.Name()], err = os.ReadFile(filepath.Join(dir, name.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func (f tree) write(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range f {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (f tree) names() (all []string) {
	for name := range f {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// sample is a log of three files whose mark is before the last batch.
func sample(t testing.TB) (o *owner, whole tree, all, marked []*raft.Log) {
	t.Helper()
	o = newOwner(t)
	o.size = 700
	l := o.open(t)
	for first := uint64(1); first <= 40; first += 4 {
		batch := entries(first, first+3, first)
		batch[1].Data = bytes.Repeat([]byte("x"), int(first))
		batch[2].Extensions = []byte("more")
		if err := l.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
		if all = append(all, batch...); first == 33 {
			if err := l.SaveMark(); err != nil {
				t.Fatal(err)
			}
			marked = slices.Clone(all)
		}
	}
	if whole = treeOf(t, o.dir); len(whole) < 3 || o.head.Mark.Index != 36 {
		t.Fatalf("%d files, %+v", len(whole), o.head)
	}
	return o, whole, all, marked
}

// judge opens a log that something was done to: either it is refused as damaged, or it holds all entries, or, where a
// torn write could be the cause, those up to the mark and a part of the last batch.
func judge(t *testing.T, what string, files tree, head Head, all, marked []*raft.Log) (refused, torn bool) {
	t.Helper()
	dir := files.write(t)
	l, err := Open(dir, head, Options{NoSync: true, SaveHead: func(Head) error { return nil }})
	if err != nil {
		damage, ok := errors.AsType[*DamageError](err)
		if !ok || damage.Reason == "" {
			t.Errorf("%s: %v", what, err)
		}
		if now := treeOf(t, dir); !slices.EqualFunc(now.names(), files.names(),
			func(a, b string) bool { return a == b && bytes.Equal(now[a], files[b]) }) {
			t.Errorf("%s: a log that was refused was changed", what)
		}
		return true, false
	}
	defer l.Close()
	got := read(t, l)
	if len(got) < len(marked) || len(got) > len(all) || !same(got, all[:len(got)]) {
		t.Errorf("%s passes, and the log has %s", what, ends(got))
	}
	if err := l.StoreLogs(entries(uint64(len(got))+1, uint64(len(got))+2, 99)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return false, len(got) < len(all)
}

// TestLog_flips flips every bit of every file.
func TestLog_flips(t *testing.T) {
	t.Parallel()
	o, whole, all, marked := sample(t)
	newest := whole.names()[len(whole)-1]
	for _, name := range whole.names() {
		refusals, torn := 0, 0
		for at := range whole[name] {
			bit := byte(1) << (at % 8)
			files := tree{}
			for other, data := range whole {
				files[other] = data
			}
			files[name] = bytes.Clone(whole[name])
			files[name][at] ^= bit
			refused, short := judge(t, fmt.Sprintf("%s, byte %d, bit %#x", name, at, bit), files, o.head, all, marked)
			if refused {
				refusals++
			}
			if short {
				torn++
			}
		}
		if refusals == 0 || torn > 0 && name != newest {
			t.Errorf("%s: %d flips refused, %d accepted as a torn write", name, refusals, torn)
		}
	}
}

// TestLog_flipsBeforeLaterBatches: a frame is damaged, not torn, when a batch that was written later is whole, even
// without a mark.
func TestLog_flipsBeforeLaterBatches(t *testing.T) {
	t.Parallel()
	o := newOwner(t)
	o.size = 1 << 20
	l := o.open(t)
	var starts []int64
	for i := range uint64(3) {
		if err := l.StoreLogs(entries(3*i+1, 3*i+3, 1)); err != nil {
			t.Fatal(err)
		}
		starts = append(starts, l.segments[0].end)
	}
	data := treeOf(t, o.dir)[fileName(1)]
	for at := headerBytes; at < len(data); at++ {
		spoilt := bytes.Clone(data)
		spoilt[at] ^= 0x10
		found, err := Scan(tree{fileName(1): spoilt}.write(t), Head{})
		_, damage := errors.AsType[*DamageError](err)
		if last := int64(at) >= starts[1]; damage == last || !damage && found.Torn == 0 {
			t.Errorf("byte %d: %v, though the last batch begins at %d", at, err, starts[1])
		}
	}
}

// TestLog_tornAnywhere cuts the newest file at every length.
func TestLog_tornAnywhere(t *testing.T) {
	t.Parallel()
	o, whole, all, marked := sample(t)
	names := whole.names()
	newest := names[len(names)-1]
	was := -1
	for size := range len(whole[newest]) {
		files := tree{}
		for other, data := range whole {
			files[other] = data
		}
		files[newest] = whole[newest][:size]
		refused, _ := judge(t, fmt.Sprintf("%d of %d bytes", size, len(whole[newest])), files, o.head, all, marked)
		if !refused && was < 0 {
			was = size
		}
		if refused && was >= 0 {
			t.Errorf("%d bytes are refused, %d are not", size, was)
		}
		if size%5 == 0 { // a disk wrote the rest as zeros
			files[newest] = append(bytes.Clone(whole[newest][:size]), make([]byte, len(whole[newest])-size)...)
			judge(t, fmt.Sprintf("%d of %d bytes, then zeros", size, len(whole[newest])), files, o.head, all, marked)
		}
	}
	if was < 0 {
		t.Error("every length was refused")
	}
}

// TestLog_missing removes, swaps and rolls back files.
func TestLog_missing(t *testing.T) {
	t.Parallel()
	o, whole, all, marked := sample(t)
	names := whole.names()
	for name, change := range map[string]func(tree){
		"the first file":         func(f tree) { delete(f, names[0]) },
		"a file in the middle":   func(f tree) { delete(f, names[1]) },
		"the file with the mark": func(f tree) { delete(f, fileName(o.head.File+uint64(len(names))-1)) },
		"all files":              func(f tree) { clear(f) },
		"swapped files":          func(f tree) { f[names[0]], f[names[1]] = f[names[1]], f[names[0]] },
		"another log's file": func(f tree) {
			_, other, _,
				_ := sample(t)
			f[names[len(names)-1]] = other[names[0]]
		},
		"another log": func(f tree) {
			o := newOwner(t)
			o.size = 700
			if err := o.open(t).StoreLogs(entries(1, 40, 34)); err != nil {
				t.Fatal(err)
			}
			clear(f)
			for name, data := range treeOf(t, o.dir) {
				f[name] = data
			}
		},
		"an empty first file": func(f tree) { f[names[0]] = nil },
	} {
		files := tree{}
		for other, data := range whole {
			files[other] = data
		}
		change(files)
		if refused, _ := judge(t, name, files, o.head, all, marked); !refused {
			t.Errorf("%s: opens", name)
		}
	}
	stays := tree{"00000000000000000099.wal.tmp": []byte("x"), "notes.txt": nil}
	for other, data := range whole {
		stays[other] = data
	}
	if refused, _ := judge(t, "foreign names", stays, o.head, all, marked); refused {
		t.Error("foreign names: refused")
	}
}

// TestLog_diesAnywhere stops a cut at each of its steps: the log opened afterwards is the one before it, after it, or
// in between.
func TestLog_diesAnywhere(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string][2]uint64{"all": {1, 40}, "front": {1, 22}, "back": {11, 40},
		"back to the mark": {37, 40},
		"one at the front": {1, 1}, "one at the back": {40, 40}} {
		o, whole, all, _ := sample(t)
		l := o.open(t)
		before := o.head
		if err := l.DeleteRange(cut[0], cut[1]); err != nil {
			t.Fatal(err)
		}
		after, kept := treeOf(t, o.dir), read(t, l)
		var gone []string
		for _, f := range whole.names() {
			if _, there := after[f]; !there {
				gone = append(gone, f)
			}
		}
		if cut[0] > 1 {
			slices.Reverse(gone)
		}
		states := map[string]struct {
			files tree
			head  Head
		}{"before": {whole, before}, "the head stored": {whole, o.head}, "done": {after, o.head}}
		left := tree{}
		for f, data := range whole {
			left[f] = data
		}
		for _, f := range gone {
			delete(left, f)
			files := tree{}
			for f, data := range left {
				files[f] = data
			}
			states[f+" removed"] = struct {
				files tree
				head  Head
			}{files, o.head}
		}
		for at, s := range states {
			r := &owner{dir: s.files.write(t), head: s.head, size: o.size}
			reopened := r.open(t)
			got := read(t, reopened)
			n := len(got)
			ok := same(got, kept) || same(got, all)
			if cut[0] > 1 { // a part of the removed entries is still there
				ok = n >= len(kept) && n <= len(all) && same(got, all[:n])
			}
			if !ok {
				t.Errorf("%s, %s: the log has %s", name, at, ends(got))
			}
			if err := reopened.StoreLog(&raft.Log{Index: 41 + uint64(n), Term: 50}); err != nil {
				t.Error(name, at, err)
			}
			if err := reopened.SaveMark(); err != nil {
				t.Error(name, at, err)
			}
			if _, err := Scan(r.dir, r.head); err != nil {
				t.Errorf("%s, %s: after another entry: %v", name, at, err)
			}
		}
	}
}

// TestLog_newestGoesFirst: when a cut at the back stops in the middle, no file is missing between others.
func TestLog_newestGoesFirst(t *testing.T) {
	t.Parallel()
	o, whole, _, _ := sample(t)
	names := whole.names()
	l := o.open(t)
	stuck := filepath.Join(o.dir, names[len(names)-2])
	if err := errors.Join(os.Remove(stuck), os.MkdirAll(filepath.Join(stuck, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteRange(2, 40); err == nil {
		t.Fatal("a directory was removed")
	}
	for i, name := range names {
		_, err := os.Stat(filepath.Join(o.dir, name))
		if there := i < len(names)-1; there != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLog_headIsStoredFirst: no file is touched by a cut whose head could not be stored.
func TestLog_headIsStoredFirst(t *testing.T) {
	t.Parallel()
	o, whole, all, _ := sample(t)
	l, err := Open(o.dir, o.head, Options{NoSync: true, SaveHead: func(h Head) error {
		if h.Mark.Index == 40 && h.File == 1 {
			return nil // at the opening
		}
		return errors.New("no")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, cut := range [][2]uint64{{1, 40}, {1, 20}, {20, 40}} {
		if err := l.DeleteRange(cut[0], cut[1]); err == nil {
			t.Errorf("%v: no error", cut)
		}
	}
	if now := treeOf(t, o.dir); !slices.Equal(now.names(), whole.names()) || !same(read(t, l), all) {
		t.Error("the log was cut")
	}
}

// TestLog_unborn: a file whose creation a crash interrupted holds nothing, and is made again.
func TestLog_unborn(t *testing.T) {
	t.Parallel()
	o, whole, all, marked := sample(t)
	for size := range headerBytes {
		files := tree{fileName(uint64(len(whole)) + 1): make([]byte, size)}
		for other, data := range whole {
			files[other] = data
		}
		if refused, torn := judge(t, fmt.Sprintf("%d bytes", size), files, o.head, all, marked); refused || torn {
			t.Errorf("%d bytes of a new file: refused %v, torn %v", size, refused, torn)
		}
	}
}

// TestLog_framesInPayloads: a payload that is itself a part of a log never passes for a later batch.
func TestLog_framesInPayloads(t *testing.T) {
	t.Parallel()
	_, other, _, _ := sample(t)
	inside := other[fileName(1)]
	o := newOwner(t)
	o.size = 1 << 20
	l := o.open(t)
	if err := errors.Join(l.StoreLogs(entries(1, 1, 1)), l.SaveMark(),
		l.StoreLog(&raft.Log{Index: 2, Term: 1, Data: inside, Extensions: make([]byte, 8)})); err != nil {
		t.Fatal(err)
	}
	files := treeOf(t, o.dir)
	binary.LittleEndian.PutUint64(files[fileName(1)][l.segments[0].offsets[1]:],
		77) // its frame is torn, the payload is not
	found, err := Scan(files.write(t), o.head)
	if err != nil || found.Torn == 0 || found.last.Index != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestGetLog_damage: an entry that changed under an open log is not returned.
func TestGetLog_damage(t *testing.T) {
	t.Parallel()
	o, _, _, _ := sample(t)
	l := o.open(t)
	path, _ := l.Newest()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := l.segments[len(l.segments)-1]
	for _, at := range []int64{0, 9, 17, 21, 25, 26, 27, 29, frameBytes} {
		var b [1]byte
		offset := s.offsets[1] + at
		if _, err := file.ReadAt(b[:], offset); err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte{b[0] ^ 4}, offset); err != nil {
			t.Fatal(err)
		}
		var e raft.Log
		err := l.GetLog(s.from+1, &e)
		if in, ok := errors.AsType[*DamageError](err); !ok || !strings.Contains(in.Reason, fmt.Sprint(s.from+1)) {
			t.Errorf("byte %d: %v, %+v", at, err, e)
		}
		if _, err := file.WriteAt(b[:], offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.GetLog(999, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Error(err)
	}
}
