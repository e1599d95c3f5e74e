package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota/test/rig"
)

const (
	// wanNet is the address prefix of the seats: wanNet1 is this program's.
	wanNet = "10.213.0."
	// wanMTU is that of jumbo frames: this program copies each packet twice.
	wanMTU = "9000"
	// wanQueue bounds the packets on their way from one seat to another.
	wanQueue = 16_384
)

// wan is a set of separate networks for this program and for some nodes, which reach each other only through this
// program: it delays packets between regions by half of a round trip, in order. The kernel's own feature (netem) is not
// in every kernel.
type wan struct {
	seats []*wanSeat
	// rtt is the round trip between regions, in nanoseconds.
	rtt atomic.Int64
	// lost counts the packets that arrived when a queue was full.
	lost atomic.Int64
}

// wanSeat is one place in a region; space is the name of its network namespace, empty for this program's own.
type wanSeat struct {
	space  string
	region int
	device *os.File
	// to are the packets on their way to each seat.
	to []chan wanPacket
}

// wanPacket is a packet in transit, and its time of arrival.
type wanPacket struct {
	at   time.Time
	data []byte
}

// newWAN makes a network with a seat for each region; the first is this program's.
func newWAN(regions []int) (w *wan, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("networks with delays want the super-user")
	}
	w = &wan{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	for i, region := range regions {
		s := &wanSeat{region: region}
		name := fmt.Sprintf("rota%d-%d", os.Getpid(), i)
		if s.device, err = rig.OpenTun(name); err != nil {
			return w, err
		}
		w.seats = append(w.seats, s)
		in := func(args ...string) error { return wanIP(args...) }
		if i > 0 {
			if err := wanIP("netns", "add", name); err != nil {
				return w, err
			}
			s.space = name
			if err := wanIP("link", "set", name, "netns", name); err != nil {
				return w, err
			}
			in = func(args ...string) error { return wanIP(append([]string{"-n", name}, args...)...) }
			if err := in("link", "set", "lo", "up"); err != nil {
				return w, err
			}
		}
		for _, args := range [][]string{{"addr", "add", w.address(i) + "/24", "dev", name},
			{"link", "set", name, "mtu", wanMTU, "up"}} {
			if err := in(args...); err != nil {
				return w, err
			}
		}
	}
	for from, s := range w.seats {
		for to := range w.seats {
			s.to = append(s.to, make(chan wanPacket, wanQueue))
			go w.deliver(from, to)
		}
	}
	for from := range w.seats {
		go w.read(from)
	}
	return w, nil
}

// address returns the address of a seat.
func (w *wan) address(seat int) string { return wanNet + strconv.Itoa(seat+1) }

// within returns the beginning of a command line that runs in a seat's network.
func (w *wan) within(seat int) []string { return []string{"ip", "netns", "exec", w.seats[seat].space} }

// read receives packets from a seat, until its device is closed.
func (w *wan) read(from int) {
	s := w.seats[from]
	defer func() {
		for _, queue := range s.to {
			close(queue)
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := s.device.Read(buffer)
		if err != nil {
			return
		}
		if n < 20 || buffer[0]>>4 != 4 ||
			string(buffer[16:19]) != "\x0a\xd5\x00" { // for another network, as IPv6 greetings
			continue
		}
		to := int(buffer[19]) - 1
		if to < 0 || to >= len(w.seats) || to == from {
			continue
		}
		at := time.Now()
		if w.seats[to].region != s.region {
			at = at.Add(time.Duration(w.rtt.Load()) / 2)
		}
		select {
		case s.to[to] <- wanPacket{at, append([]byte(nil), buffer[:n]...)}:
		default:
			w.lost.Add(1)
		}
	}
}

// deliver sends packets to a seat, each at its time.
func (w *wan) deliver(from, to int) {
	for p := range w.seats[from].to[to] {
		time.Sleep(time.Until(p.at))
		_, _ = w.seats[to].device.Write(p.data) // packets that are not accepted are lost, as on a line
	}
}

// close ends the networks, in which nothing runs any more.
func (w *wan) close() (err error) {
	for _, s := range w.seats {
		err = errors.Join(err, s.device.Close())
		if s.space != "" {
			err = errors.Join(err, wanIP("netns", "del", s.space))
		}
	}
	return err
}

func wanIP(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
