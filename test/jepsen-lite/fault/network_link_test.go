package fault

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// packetOf is a TCP packet of 10.0.0.1 to 10.0.0.2.
func packetOf(flags byte, number, acked uint32, size int) []byte {
	p := resetPacket(ends{[4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}}, 1111, 2222, number, acked, flags)
	p = append(p, make([]byte, size)...)
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	return p
}

// TestLine sends a thousand packets over a line, one each millisecond.
func TestLine(t *testing.T) {
	t.Parallel()
	const sent = 1000
	for _, c := range []struct {
		name  string
		shape shape
		// The bounds of the outcomes.
		passed, lost, twice, early, resets [2]int
		// delay bounds the delay of each.
		delay [2]time.Duration
	}{
		{"good", shape{}, [2]int{sent, sent}, [2]int{}, [2]int{}, [2]int{}, [2]int{}, [2]time.Duration{}},
		{"slow", shape{delay: 100 * time.Millisecond, jitter: 40 * time.Millisecond}, [2]int{sent, sent}, [2]int{},
			[2]int{}, [2]int{}, [2]int{}, [2]time.Duration{60 * time.Millisecond, 140 * time.Millisecond}},
		{"lossy", shape{lose: 300}, [2]int{640, 760}, [2]int{240, 360}, [2]int{}, [2]int{}, [2]int{},
			[2]time.Duration{}},
		{"twice", shape{twice: 200}, [2]int{1140, 1260}, [2]int{}, [2]int{140, 260}, [2]int{}, [2]int{},
			[2]time.Duration{}},
		{"early", shape{delay: 10 * time.Millisecond, early: 250}, [2]int{sent, sent}, [2]int{}, [2]int{},
			[2]int{180, 320}, [2]int{}, [2]time.Duration{0, 10 * time.Millisecond}},
		{"reset", shape{reset: 1000}, [2]int{}, [2]int{}, [2]int{}, [2]int{}, [2]int{sent, sent}, [2]time.Duration{}},
		{"starved", shape{rate: 1 << 19}, [2]int{sent, sent}, [2]int{}, [2]int{}, [2]int{}, [2]int{},
			[2]time.Duration{time.Millisecond, time.Second}},
		{"starved_to_death", shape{rate: 1}, [2]int{4000, 4400}, [2]int{}, [2]int{}, [2]int{}, [2]int{},
			[2]time.Duration{time.Second, 1 << 62}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, r := &shaped{shape: c.shape}, rand.New(rand.NewPCG(1, 2))
			l, now, passed := &line{shaped: []*shaped{x}}, time.Unix(1_700_000_000, 0), 0
			var last time.Time
			for range sent * (1 + 9*(c.shape.rate&1)) { // more than the buffer holds, where it is at a byte a second
				now = now.Add(time.Millisecond)
				early := x.figures.Early
				on, resets := l.take(now, packetOf(flagACK, 5, 6, 960), r)
				if len(resets) > 0 && len(on) > 0 {
					t.Fatal("a packet that is reset is forwarded")
				}
				for _, p := range on {
					passed++
					if held := p.at.Sub(now); held < c.delay[0] || held > c.delay[1] {
						t.Fatalf("a packet is delayed by %s, want within %v", held, c.delay)
					}
					if x.figures.Early == early && p.at.Before(last) {
						t.Fatal("a packet passes another without being early")
					}
					if x.figures.Early == early {
						last = p.at
					}
				}
			}
			f := x.figures
			if l.waiting > maxLine {
				t.Errorf("%d bytes wait", l.waiting)
			}
			for _, b := range []struct {
				what  string
				n     int
				bound [2]int
			}{{"passed", passed, c.passed}, {"lost", int(f.Lost), c.lost}, {"twice", int(f.Twice), c.twice},
				{"early", int(f.Early), c.early}, {"resets", int(f.Resets), c.resets}} {
				if b.n < b.bound[0] || b.n > b.bound[1] {
					t.Errorf("%s is %d, want within %v", b.what, b.n, b.bound)
				}
			}
		})
	}
}

// TestReset checks the numbers of resets against those that either end expects.
func TestReset(t *testing.T) {
	t.Parallel()
	type reset struct {
		from          byte
		flags         byte
		number, acked uint32
	}
	for _, c := range []struct {
		name   string
		packet []byte
		want   []reset
	}{
		{"data", packetOf(flagACK, 500, 700, 10), []reset{{1, flagRST | flagACK, 500, 700}, {2, flagRST, 700, 0}}},
		{"opening", packetOf(flagSYN, 500, 0, 0), []reset{{2, flagRST | flagACK, 0, 501}}},
		{"answer", packetOf(flagSYN|flagACK, 500, 700, 0), []reset{{1, flagRST | flagACK, 501, 700},
			{2, flagRST, 700, 0}}}, {"reset", packetOf(flagRST, 500, 0, 0), nil},
		{"datagram", func() []byte { p := packetOf(0, 0, 0, 0); p[9] = 17; return p }(), nil},
		{"fragment", func() []byte { p := packetOf(0, 0, 0, 0); p[7] = 9; return p }(), nil},
		{"short", packetOf(0, 0, 0, 0)[:30], nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := resetBoth(c.packet)
			if len(got) != len(c.want) {
				t.Fatalf("%d resets, want %d", len(got), len(c.want))
			}
			for i, p := range got {
				tcp := p[minIpHeader:]
				g := reset{p[15], tcp[13], binary.BigEndian.Uint32(tcp[4:]), binary.BigEndian.Uint32(tcp[8:])}
				if g != c.want[i] {
					t.Errorf("reset %d is %+v, want %+v", i, g, c.want[i])
				}
				if checksum(0, p[:minIpHeader]) != 0 {
					t.Error("the header's checksum is wrong")
				}
				if source := binary.BigEndian.Uint16(tcp); (source == 1111) != (g.from == 1) {
					t.Errorf("it comes from port %d of 10.0.0.%d", source, g.from)
				}
			}
		})
	}
}
