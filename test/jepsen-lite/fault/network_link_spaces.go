package fault

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/rig"
)

const (
	tunName = "chaos0"
	// shapePreference comes after the blackholes, so that a cut link is cut, bad or not; and before all other routing.
	shapePreference = "110"
	shapeTable      = "211"
)

// openShaper makes the device that bad links lead through. Its MTU is that of the links: the kernel splits and
// checksums every packet before it comes here.
func openShaper() (*shaper, error) {
	device, err := rig.OpenTun(tunName)
	if err != nil {
		return nil, err
	}
	// Packets leave the device with the address of another host, which is the purpose.
	for _, name := range []string{"all", "default", tunName} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte("0"), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("let packets through the device: %w", err), device.Close())
		}
	}
	for _, args := range [][]string{
		{"link", "set", tunName, "mtu", "1500", "up"},
		{"route", "add", "default", "dev", tunName, "table", shapeTable},
	} {
		if err := ip(args...); err != nil {
			return nil, errors.Join(err, device.Close())
		}
	}
	return newShaper(device), nil
}

// shape leads a link's packets into the device. The rule matches their incoming interface: packets that leave the
// device again no longer match it.
func (s *spaces) shape(from, to string, bad shape) (func() (check.LinkFigures, error), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shaper == nil {
		return nil, errors.New("links cannot be made bad here")
	}
	l, x := link{from, to}, &shaped{shape: bad}
	e, err := s.endsOf(l)
	if err != nil {
		return nil, err
	}
	if s.shaper.begin(e, x) {
		if err := s.divert("add", l); err != nil {
			s.shaper.end(e, x)
			return nil, err
		}
	}
	begin, before := s.rec.Now(), s.retransmitted(from)
	over := false
	end := func() (check.LinkFigures, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if over {
			return x.figures, nil
		}
		over = true
		var rtt int64
		if bad.delay > 0 {
			rtt = s.roundTrip(l)
		}
		last, f := s.shaper.end(e, x)
		f.Retransmitted, f.RoundTripMs = max(0, s.retransmitted(from)-before), rtt
		var err error
		if last {
			err = s.divert("del", l)
		}
		b := check.BadLink{From: from, To: to, Begin: begin, End: s.rec.Now(), Shape: bad.String(),
			Stalls: bad.stalls(), Figures: f}
		s.rec.With(func(h *check.History) { h.BadLinks = append(h.BadLinks, b) })
		x.figures = f
		return f, err
	}
	s.straighten = append(s.straighten, end)
	return end, nil
}

// shapes reports whether there is a device for it.
func (s *spaces) shapes() bool { return s.shaper != nil }

// straightenAll makes all links good.
func (s *spaces) straightenAll() error {
	s.mu.Lock()
	ends := s.straighten
	s.straighten = nil
	s.mu.Unlock()
	var all error
	for _, end := range ends {
		_, err := end()
		all = errors.Join(all, err)
	}
	return all
}

func (s *spaces) divert(verb string, l link) error {
	return ip("rule", verb, "pref", shapePreference, "from", s.addresses[l.from], "to", s.addresses[l.to],
		"iif", s.gates[l.from].iface, "lookup", shapeTable)
}

func (s *spaces) endsOf(l link) (e ends, err error) {
	from, to := net.ParseIP(s.addresses[l.from]).To4(), net.ParseIP(s.addresses[l.to]).To4()
	if from == nil || to == nil {
		return e, fmt.Errorf("no link from %s to %s", l.from, l.to)
	}
	copy(e.from[:], from)
	copy(e.to[:], to)
	return e, nil
}

// retransmitted counts the segments that a place has ever sent again, to any destination.
func (s *spaces) retransmitted(name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/net/snmp", s.gates[name].pid))
	if err != nil {
		return 0
	}
	var names []string
	for _, row := range strings.Split(string(text), "\n") {
		fields := strings.Fields(row)
		switch {
		case len(fields) == 0 || fields[0] != "Tcp:":
		case names == nil:
			names = fields
		default:
			for i := range min(len(names), len(fields)) {
				if names[i] == "RetransSegs" {
					n, _ := strconv.ParseInt(fields[i], 10, 64)
					return n
				}
			}
		}
	}
	return 0
}

var roundTrips = regexp.MustCompile(`\brtt:([0-9.]+)/`)

// roundTrip returns the longest round trip that TCP itself measured over a link, in milliseconds; 0 if not available.
func (s *spaces) roundTrip(l link) int64 {
	ss, err := exec.LookPath("ss")
	if err != nil {
		return 0
	}
	out, err := s.gates[l.from].place.command(ss, "-Htin", "dst", s.addresses[l.to]).Output()
	if err != nil {
		return 0
	}
	longest := 0.0
	for _, m := range roundTrips.FindAllSubmatch(out, -1) {
		if ms, err := strconv.ParseFloat(string(m[1]), 64); err == nil {
			longest = max(longest, ms)
		}
	}
	return int64(longest)
}
