package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/rotasched/rota"
)

// counted is a visit that counts, with room for a fixed size.
type counted struct {
	Visit
	held, peak, room int
	arrived          bool
}

func (c *counted) Count(n int) error {
	c.held += n
	c.peak = max(c.peak, c.held)
	if c.room > 0 && c.peak > c.room {
		return rota.Refusef(rota.KindExhausted, "body", "no room")
	}
	return nil
}

func (c *counted) Arrived() { c.arrived = true }

// TestBody_takesWhatCame checks that a body's memory grows with the data received, is counted before it is allocated,
// and is free in the end.
func TestBody_takesWhatCame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, minBuffer - 1, minBuffer, minBuffer + 1, minBuffer + 2, 100_000, maxBody - 1,
		maxBody} {
		sent := make([]byte, n)
		for i := range sent {
			sent[i] = byte(random.Uint32())
		}
		for _, zipped := range []bool{false, true} {
			var from io.Reader = bytes.NewReader(sent)
			if zipped {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				_, _ = z.Write(sent)
				_ = z.Close()
				from = &b
			}
			v := &counted{}
			b, err := newBody(iotest.HalfReader(from), v, maxBody+1<<10, zipped)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.whole()
			if err != nil || !bytes.Equal(got, sent) || !v.arrived {
				t.Fatalf("%d bytes, zipped %v: %d came, %v", n, zipped, len(got), err)
			}
			extra := 0
			if zipped {
				extra = zipBytes
			}
			if most := max(minBuffer, 2*n) + 1 + extra; v.held > most || v.held < n {
				t.Errorf("%d bytes, zipped %v: %d are counted, at most %d may be", n, zipped, v.held, most)
			}
			b.free()
			b.free() // a second free has no effect
			if v.held != 0 {
				t.Errorf("%d bytes, zipped %v: %d are counted after its end", n, zipped, v.held)
			}
		}
	}
}

// TestBody_refused checks that a body that is cut off, too long or broken returns an error and keeps nothing.
func TestBody_refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from io.Reader
		room int
		kind rota.Kind
	}{
		"no room":  {bytes.NewReader(make([]byte, 100_000)), 64 << 10, rota.KindExhausted},
		"too long": {bytes.NewReader(make([]byte, maxBody+1)), 0, rota.KindInvalid},
		"broken": {io.MultiReader(bytes.NewReader(make([]byte, 10_000)), iotest.ErrReader(io.ErrUnexpectedEOF)), 0,
			rota.KindInvalid},
		"late": {io.MultiReader(bytes.NewReader(make([]byte, 10_000)), iotest.ErrReader(iotest.ErrTimeout)), 0,
			rota.KindInvalid},
	} {
		v := &counted{room: c.room}
		b, err := newBody(c.from, v, maxBody, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = b.whole(); rota.KindOf(err) != c.kind || v.held != 0 || v.arrived {
			t.Errorf("%s: %v, %d are counted", name, err, v.held)
		}
	}
}

// TestBody_lines checks lines of any length that arrive in any pieces, as bufio reads them.
func TestBody_lines(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var sent bytes.Buffer
		for range random.IntN(40) {
			n := random.IntN(1 << random.IntN(17))
			sent.Write(bytes.Repeat([]byte{'a' + byte(random.IntN(26))}, n))
			sent.WriteByte('\n')
		}
		sent.WriteString("the end"[:random.IntN(8)])
		want := bufio.NewReader(bytes.NewReader(sent.Bytes()))
		var from io.Reader = bytes.NewReader(sent.Bytes())
		if random.IntN(2) == 0 {
			from = iotest.HalfReader(from)
		}
		if random.IntN(2) == 0 {
			from = iotest.DataErrReader(from)
		}
		v := &counted{}
		b, err := newBody(from, v, maxLines, false)
		if err != nil {
			t.Fatal(err)
		}
		for {
			line, failed := want.ReadBytes('\n')
			got, err := b.line()
			if !bytes.Equal(got, line) || !errors.Is(err, failed) {
				t.Fatalf("a line of %d bytes, %v: %d came, %v", len(line), failed, len(got), err)
			}
			if failed != nil {
				break
			}
		}
		if b.free(); v.held != 0 || v.peak > 400<<10 {
			t.Errorf("%d are counted after the end, %d before", v.held, v.peak)
		}
	}
}
