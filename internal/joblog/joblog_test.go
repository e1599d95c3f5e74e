package joblog_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/joblog"
	"github.com/rotasched/rota/internal/limits"
)

func kept(t *testing.T, w *joblog.Writer) joblog.Log {
	t.Helper()
	l, err := joblog.Decode(w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestWriter_keepsTheFirstAndTheLast writes 1 MiB of lines: the first 16 KiB and the last 48 are kept, in whole lines,
// and everything between is counted.
func TestWriter_keepsTheFirstAndTheLast(t *testing.T) {
	t.Parallel()
	var w joblog.Writer
	var all bytes.Buffer
	for i := 0; all.Len() < 1<<20; i++ {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%90))
		all.WriteString(line)
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	l := kept(t, &w)
	whole := all.Bytes()
	if len(l.Head) < limits.MaxLogHead-200 || len(l.Tail) < limits.MaxLogTail-200 {
		t.Errorf("%d and %d bytes are kept", len(l.Head), len(l.Tail))
	}
	if !bytes.HasPrefix(whole, l.Head) || !bytes.HasSuffix(whole, l.Tail) {
		t.Error("the kept log is not the beginning and the end")
	}
	between := whole[len(l.Head) : len(whole)-len(l.Tail)]
	if int(l.CutBytes) != len(between) || int(l.CutLines) != bytes.Count(between, []byte("\n")) {
		t.Errorf("%d lines and %d bytes are cut, of %d and %d", l.CutLines, l.CutBytes,
			bytes.Count(between, []byte("\n")), len(between))
	}
}

// TestWriter_cutsALine writes a line of 2 MiB, at once and in pieces: its beginning is kept, with a note on the rest,
// and memory stays flat.
func TestWriter_cutsALine(t *testing.T) { // not in parallel, as it counts allocations
	for _, piece := range []int{2 << 20, 4096, 1000} {
		var w joblog.Writer
		part := bytes.Repeat([]byte("y"), piece)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for written := 0; written < 2<<20; written += piece {
			_, _ = w.Write(part)
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 && piece == 2<<20 {
			t.Errorf("%d bytes were allocated for a line that is not kept", grown)
		}
		_, _ = w.Write([]byte("\nshort\n"))
		l := kept(t, &w)
		first, rest, _ := strings.Cut(string(l.Head), "\n")
		if len(first) >= limits.MaxLogLine || !strings.HasSuffix(first, " bytes of this line were cut]") ||
			rest != "short\n" {
			t.Errorf("the line is kept as %d bytes, …%q, then %q", len(first), first[max(0, len(first)-50):], rest)
		}
	}
}

func TestWriter_endsTheLastLine(t *testing.T) {
	t.Parallel()
	var w joblog.Writer
	if b := w.Close(); b != nil {
		t.Errorf("nothing was written: %q", b)
	}
	_, _ = w.Write([]byte("a\n\nb"))
	if parts := w.Since(0); len(parts) != 1 || string(parts[0].Text) != "a\n\n" {
		t.Errorf("%+v", parts)
	}
	if l := kept(t, &w); string(l.Head) != "a\n\nb\n" {
		t.Errorf("%q", l.Head)
	}
}

func TestWriter_ofManyGoroutines(t *testing.T) {
	t.Parallel()
	var w joblog.Writer
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				_, _ = io.WriteString(&w, "one whole line\n")
				w.Since(100)
			}
		})
	}
	all.Wait()
	l := kept(t, &w)
	for line := range strings.Lines(string(l.Head) + string(l.Tail)) {
		if line != "one whole line\n" {
			t.Fatalf("%q", line)
		}
	}
	if lines := uint64(bytes.Count(l.Head, []byte("\n"))+bytes.Count(l.Tail,
		[]byte("\n"))) + l.CutLines; lines != 4000 {
		t.Errorf("%d lines", lines)
	}
}

// TestBuffer_follows has a second buffer follow a first one by parts, at random moments: once
// it has caught up it keeps the same.
func TestBuffer_follows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 1))
		var from, to joblog.Buffer
		for i := range 1 + chance.IntN(3000) {
			from.Add(fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("z", chance.IntN(200))))
			if chance.IntN(1+chance.IntN(700)) == 0 {
				for _, p := range from.Since(to.Total()) {
					if err := joblog.CheckPart(&p); err != nil {
						t.Fatal(err)
					}
					to.Take(p)
					to.Take(p) // again changes nothing
				}
			}
		}
		for _, p := range from.Since(to.Total()) {
			to.Take(p)
		}
		a, b := from.Log(), to.Log()
		if from.Total() != to.Total() || !bytes.Equal(a.Head, b.Head) || !bytes.HasSuffix(a.Tail, b.Tail) {
			t.Fatalf("seed %d: %d and %d bytes in all", seed, from.Total(), to.Total())
		}
		if err := errOf(joblog.Decode(b.Append(nil))); err != nil {
			t.Fatal(err)
		}
		if from.Size() > 200<<10 || to.Size() > 200<<10 {
			t.Errorf("they take %d and %d bytes", from.Size(), to.Size())
		}
	}
}

func errOf(_ joblog.Log, err error) error { return err }

func TestDecode_refuses(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 99) + "\n"
	for name, m := range map[string]*rotav1.AttemptLog{
		"a long head":      {Head: []byte(strings.Repeat(line, limits.MaxLogHead/100+1))},
		"a long tail":      {Tail: []byte(strings.Repeat(line, limits.MaxLogTail/100+1))},
		"a long line":      {Head: []byte(strings.Repeat("x", limits.MaxLogLine) + "\n")},
		"a line of 2 MiB":  {Tail: []byte(strings.Repeat("x", 2<<20) + "\n")},
		"no newline":       {Head: []byte("x")},
		"lines of nothing": {CutLines: 3},
		"bytes of nothing": {CutBytes: 3},
		"too many":         {CutLines: 1, CutBytes: 1 << 60},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := joblog.Decode(b); rota.KindOf(err) != rota.KindInvalid || rota.ErrorOf(err).Subject != "log" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode compares Decode with protobuf, and accepted input with Append's output.
func FuzzDecode(f *testing.F) {
	whole := joblog.Log{Head: []byte("a\n"), Tail: []byte("z\n"), CutLines: 2, CutBytes: 10}
	f.Add(whole.Append(nil))
	f.Add([]byte{0x0a, 0x02, 'a', '\n', 0x78, 0x01})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte("\xc1\xc1\xc1\xaa\x1e12345678")) // a field number that no field can have
	f.Fuzz(func(t *testing.T, b []byte) {
		var want rotav1.AttemptLog
		failed := proto.Unmarshal(b, &want)
		l, err := joblog.Decode(b)
		if err != nil {
			return
		}
		if failed != nil || !bytes.Equal(l.Head, want.GetHead()) || !bytes.Equal(l.Tail, want.GetTail()) ||
			l.CutLines != want.GetCutLines() ||
			l.CutBytes != want.GetCutBytes() {
			t.Fatalf("got %+v, want protobuf's %v, %v", l, &want, failed)
		}
		again, err := joblog.Decode(l.Append(nil))
		if err != nil || !bytes.Equal(again.Head, l.Head) || !bytes.Equal(again.Tail, l.Tail) ||
			again.CutBytes != l.CutBytes {
			t.Fatalf("%+v, written and read %+v, %v", l, again, err)
		}
	})
}
