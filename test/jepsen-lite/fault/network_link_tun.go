package fault

import (
	"container/heap"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// shaper is the user-space path of bad links: their packets are routed into a TUN device, which this program reads, and
// leave it again when their time has come. The kernel's own feature (netem) is not in every kernel.
type shaper struct {
	device io.ReadWriteCloser
	mu     sync.Mutex
	rand   *rand.Rand
	lines  map[ends]*line
	queue  passages
	order  uint64
	woken  chan struct{}
	closed chan struct{}
	loops  sync.WaitGroup
}

// newShaper uses a device. The fate of a packet does not depend on the run's seed: the order in which packets arrive
// does not either.
func newShaper(device io.ReadWriteCloser) *shaper {
	s := &shaper{device: device, rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		lines: make(map[ends]*line), woken: make(chan struct{}, 1), closed: make(chan struct{})}
	s.loops.Go(s.read)
	s.loops.Go(s.release)
	return s
}

// begin shapes a line, which may be shaped already, and reports whether it is the first.
func (s *shaper) begin(e ends, x *shaped) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[e]
	if l == nil {
		l = &line{}
		s.lines[e] = l
	}
	l.shaped = append(l.shaped, x)
	return len(l.shaped) == 1
}

// end undoes one begin, and reports whether none is left. Waiting packets continue at their time.
func (s *shaper) end(e ends, x *shaped) (last bool, f check.LinkFigures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[e]
	if l == nil {
		return false, x.figures
	}
	for i := range l.shaped {
		if l.shaped[i] == x {
			l.shaped = append(l.shaped[:i:i], l.shaped[i+1:]...)
			break
		}
	}
	if last = len(l.shaped) == 0; last {
		delete(s.lines, e)
	}
	return last, x.figures
}

// read receives the packets that are routed here until the device is closed.
func (s *shaper) read() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := s.device.Read(buffer)
		if err != nil {
			return
		}
		if e, ok := endsOf(buffer[:n]); ok {
			s.arrive(e, append([]byte(nil), buffer[:n]...))
		}
	}
}

func (s *shaper) arrive(e ends, packet []byte) {
	s.mu.Lock()
	l := s.lines[e]
	if l == nil { // it was on its way when its line became good
		s.mu.Unlock()
		s.write(packet)
		return
	}
	on, resets := l.take(time.Now(), packet, s.rand)
	for _, p := range on {
		s.order++
		heap.Push(&s.queue, queued{p, s.order})
	}
	s.mu.Unlock()
	for _, reset := range resets {
		s.write(reset)
	}
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// release sends packets on, each at its time.
func (s *shaper) release() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		for {
			packet := s.due(timer)
			if packet == nil {
				break
			}
			s.write(packet)
		}
		select {
		case <-timer.C:
		case <-s.woken:
		case <-s.closed:
			return
		}
	}
}

// due returns the next packet whose time has come; if none, it sets the timer for it.
func (s *shaper) due(timer *time.Timer) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	if wait := time.Until(s.queue[0].at); wait > 0 {
		timer.Reset(wait)
		return nil
	}
	p := heap.Pop(&s.queue).(queued)
	p.line.waiting -= len(p.packet)
	return p.packet
}

// write drops packets that the device does not accept, as a line may.
func (s *shaper) write(packet []byte) { _, _ = s.device.Write(packet) }

func (s *shaper) close() error {
	close(s.closed)
	err := s.device.Close()
	s.loops.Wait()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// queued packets are ordered by their time, then by arrival.
type queued struct {
	passage
	order uint64
}

type passages []queued

func (q passages) Len() int { return len(q) }

func (q passages) Less(i, k int) bool {
	return q[i].at.Before(q[k].at) || q[i].at.Equal(q[k].at) && q[i].order < q[k].order
}

func (q passages) Swap(i, k int) { q[i], q[k] = q[k], q[i] }

// Push implements heap.Interface.
func (q *passages) Push(x any) { *q = append(*q, x.(queued)) }

// Pop implements heap.Interface.
func (q *passages) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = queued{}
	*q = (*q)[:last]
	return p
}
