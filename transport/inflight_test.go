package transport

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

func frameOf(kind, flags byte, stream uint32, carries ...byte) []byte {
	n := len(carries)
	return append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16),
		byte(stream >> 8), byte(stream)}, carries...)
}

// messageOf returns a message of the given length of which only the first bytes are present.
func messageOf(length, there int) []byte {
	return append([]byte{0, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)},
		make([]byte, there)...)
}

// begun returns the beginning of a connection with these calls.
func begun(calls ...uint32) []byte {
	b := append([]byte(http2Preface), frameOf(4, 0, 0)...)
	for _, id := range calls {
		b = append(b, frameOf(frameHeaders, 4, id, 1, 2, 3)...)
	}
	return b
}

// scripted is a connection whose client sends this, in pieces of any size.
type scripted struct {
	net.Conn
	says   []byte
	random *rand.Rand
	closed bool
}

func (s *scripted) Read(p []byte) (int, error) {
	if len(s.says) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+s.random.IntN(40))], s.says)
	s.says = s.says[n:]
	return n, nil
}
func (s *scripted) Write(p []byte) (int, error) { return len(p), nil }
func (s *scripted) Close() error                { s.closed = true; return nil }
func (s *scripted) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// TestInflight_counts checks that bytes count from a message's first byte to its answer, however they are split.
func TestInflight_counts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	f := newInflight(1<<20, slog.New(slog.DiscardHandler))
	conn := &scripted{random: random}
	c := f.follow(conn)
	says := func(parts ...[]byte) {
		for _, part := range parts {
			conn.says = append(conn.says, part...)
		}
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
	}
	answers := func(frame []byte) {
		for len(frame) > 0 { // in pieces, too
			n := 1 + random.IntN(len(frame))
			_, _ = c.Write(frame[:n])
			frame = frame[n:]
		}
	}
	holds := func(what string, held, unfinished int64) {
		t.Helper()
		if c.held.Load() != held || f.held.Load() != held || c.unfinished.Load() != unfinished {
			t.Fatalf("%s: %d of %d are held, %d unfinished; want %d and %d", what, c.held.Load(), f.held.Load(),
				c.unfinished.Load(), held, unfinished)
		}
	}
	says(begun(1, 3, 5), frameOf(frameData, 0, 1, messageOf(100, 40)...))
	holds("half a message", 45, 45)
	says(frameOf(frameData, 1, 1, make([]byte, 60)...))
	holds("a whole one", 105, 0)
	says(frameOf(frameData, 0, 3, append(messageOf(10, 10), messageOf(20, 5)...)...))
	holds("the second of a stream frees the first", 105+10, 10)
	answers(frameOf(8, 0, 1, 0, 0, 1, 0))
	holds("a window is not an answer", 115, 10)
	answers(frameOf(frameHeaders, 4, 1, 9))
	holds("the answer's first frame", 10, 10)
	says(frameOf(frameData, 1, 1, messageOf(7, 7)...))
	answers(frameOf(frameData, 0, 1, make([]byte, 300)...))
	answers(frameOf(frameHeaders, 5, 1, 9))
	says(frameOf(frameData, 0, 1, messageOf(7, 7)...))
	holds("a call that ended gets no data", 10, 10)
	says(frameOf(frameData, flagPadded, 5, 1, 2, 3))
	holds("padded", 13, 13)
	answers(frameOf(frameReset, 0, 5, 0, 0, 0, 1))
	says(frameOf(frameReset, 0, 3, 0, 0, 0, 8))
	holds("both gave up", 0, 0)
	if len(c.streams) != 0 || conn.closed {
		t.Errorf("%d streams are left, closed %v", len(c.streams), conn.closed)
	}
}

// TestInflight_tooMuch checks that the connection with most unfinished bytes closes, and one that holds more than half
// of all.
func TestInflight_tooMuch(t *testing.T) {
	t.Parallel()
	f := newInflight(1000, slog.New(slog.DiscardHandler))
	open := func(frames ...[]byte) *scripted {
		conn := &scripted{random: rand.New(rand.NewPCG(1, 2)), says: begun(1)}
		for _, frame := range frames {
			conn.says = append(conn.says, frame...)
		}
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{f.follow(conn)})
		return conn
	}
	whole := open(frameOf(frameData, 1, 1, messageOf(400, 400)...))
	most := open(frameOf(frameData, 0, 1, messageOf(900, 300)...))
	less := open(frameOf(frameData, 0, 1, messageOf(900, 100)...))
	if whole.closed || most.closed || less.closed {
		t.Fatal("one closed before the bound")
	}
	last := open(frameOf(frameData, 0, 1, messageOf(900, 250)...))
	if whole.closed || !most.closed || less.closed || last.closed || f.held.Load() != 405+105+255 {
		t.Errorf("closed: %v %v %v %v, %d are held", whole.closed, most.closed, less.closed, last.closed, f.held.Load())
	}
	if greedy := open(frameOf(frameData, 0, 1, messageOf(900, 600)...)); !greedy.closed || f.held.Load() > 1000 {
		t.Errorf("one with more than half: closed %v, %d are held", greedy.closed, f.held.Load())
	}
}

// TestInflight_perPrincipal checks that the connections of one principal hold half together, and another's are left
// alone.
func TestInflight_perPrincipal(t *testing.T) {
	t.Parallel()
	f := newInflight(1000, slog.New(slog.DiscardHandler))
	open := func(of rota.Principal) (*scripted, *inflightConn) {
		conn := &scripted{random: rand.New(rand.NewPCG(1, 2)), says: begun(1)}
		c := f.follow(conn)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
		c.belongs(of)
		return conn, c
	}
	sends := func(conn *scripted, c *inflightConn, bytes int) {
		conn.says = frameOf(frameData, 0, 1, messageOf(900, bytes-5)...)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{c})
	}
	one, oneC := open("token:a")
	two, twoC := open("token:a")
	other, otherC := open("token:b")
	sends(one, oneC, 200)
	sends(other, otherC, 300)
	sends(two, twoC, 290)
	if one.closed || two.closed || other.closed || f.held.Load() != 790 {
		t.Fatalf("one closed before the bound, %d are held", f.held.Load())
	}
	third, thirdC := open("token:a")
	sends(third, thirdC, 30)
	if one.closed || !two.closed || other.closed || third.closed || f.held.Load() != 530 ||
		oneC.account.Load().held.Load() != 230 {
		t.Errorf("closed: %v %v %v %v, %d are held", one.closed, two.closed, other.closed, third.closed, f.held.Load())
	}
	oneC.belongs("token:c") // the next call on it belongs to another principal
	if a := thirdC.account.Load(); a.held.Load() != 30 || oneC.account.Load().held.Load() != 200 {
		t.Errorf("%d and %d are held", a.held.Load(), oneC.account.Load().held.Load())
	}
	for _, c := range []*inflightConn{oneC, otherC, thirdC, oneC} {
		_ = c.Close()
	}
	if len(f.accounts) != 0 || f.held.Load() != 0 {
		t.Errorf("%d accounts are left, %d bytes held", len(f.accounts), f.held.Load())
	}
}

// TestInflight_cutOffLingers checks that memory of an HTTP request that was cut off stays counted until the request has
// returned, and that others wait for it without being cut off.
func TestInflight_cutOffLingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{inflight: newInflight(1000, slog.New(slog.DiscardHandler))}
		begin := func(ctx context.Context) *webFlight {
			ctx, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/jobs", nil)
			return s.followWeb(r, &pass{}, cancel, http.NewResponseController(httptest.NewRecorder()))
		}
		greedy, other, next := begin(t.Context()), begin(t.Context()), begin(t.Context())
		ended, cancel := context.WithCancel(t.Context())
		gone := begin(ended)
		for f, n := range map[*webFlight]int{greedy: 450, other: 300} {
			if err := f.count(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		granted, refused := make(chan error, 1), make(chan error, 1)
		go func() { granted <- next.count(t.Context(), 350) }()
		synctest.Wait()
		go func() { refused <- gone.count(ended, 100) }()
		synctest.Wait()
		if err := greedy.count(t.Context(), 0); rota.KindOf(err) != rota.KindExhausted || len(granted) != 0 ||
			s.inflight.leaving.Load() != 450 {
			t.Errorf("the greedy one: %v; granted %d, %d bytes are leaving", err, len(granted),
				s.inflight.leaving.Load())
		}
		if err := other.count(t.Context(), 0); err != nil {
			t.Errorf("another one: %v", err)
		}
		cancel()
		if err := <-refused; rota.KindOf(err) != rota.KindExhausted {
			t.Errorf("one that gives up: %v", err)
		}
		gone.leave()
		greedy.leave()
		if err := <-granted; err != nil {
			t.Error(err)
		}
		other.leave()
		next.arrived()
		if c := next.conn; c.held.Load() != 350 || c.unfinished.Load() != 0 || s.inflight.held.Load() != 350 ||
			s.inflight.leaving.Load() != 0 {
			t.Errorf("%d are held, %d of them unfinished, %d of all, %d leaving", c.held.Load(), c.unfinished.Load(),
				s.inflight.held.Load(), s.inflight.leaving.Load())
		}
		next.leave()
		if s.inflight.held.Load() != 0 || s.inflight.leaving.Load() != 0 {
			t.Errorf("%d are held and %d leaving in the end", s.inflight.held.Load(), s.inflight.leaving.Load())
		}
	})
}

// TestInflight_late checks that a message that does not arrive whole in time ends its connection.
func TestInflight_late(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newInflight(1<<20, slog.New(slog.DiscardHandler)).follow(far)
		go func() { _, _ = io.Copy(io.Discard, struct{ io.Reader }{c}) }()
		say := func(b []byte) {
			if _, err := near.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		say(append(begun(1, 3), frameOf(frameData, 0, 1, messageOf(10, 9)...)...))
		time.Sleep(messageTime - time.Second)
		say(frameOf(frameData, 0, 1, 1)) // complete
		time.Sleep(time.Hour)
		say(frameOf(frameData, 0, 3, messageOf(3*messageRate, 9)...))
		if got, want := lasts(near), messageTime+3*time.Second; got != want {
			t.Errorf("open: got %s, want %s", got, want)
		}
	})
}

// TestInflight_calls checks that messages of real clients are released with their answers.
func TestInflight_calls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 20 {
		if _, err := b.jobs.List(bounded(t), &rotav1.ListJobsRequest{}); err != nil {
			t.Fatal(err)
		}
		if held := b.server.inflight.held.Load(); held != 0 {
			t.Fatalf("%d bytes are held after an answer", held)
		}
	}
}
