package main

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWAN sends a call to another region and back, which takes at least a round trip, and checks that nothing is left
// behind.
func TestWAN(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("networks want the super-user")
	}
	w, err := newWAN([]int{0, 1})
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skipf("networks cannot be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const rtt = 60 * time.Millisecond
	w.rtt.Store(int64(rtt))
	begin := time.Now()
	_, err = net.DialTimeout("tcp", w.address(1)+":9", 10*time.Second)
	if took := time.Since(begin); !errors.Is(err, syscall.ECONNREFUSED) || took < rtt {
		t.Errorf("a call to a closed port ends after %s with %v", took, err)
	}
	space := w.seats[1].space
	if err := w.close(); err != nil {
		t.Error(err)
	}
	all, _ := os.ReadDir("/run/netns")
	for _, one := range all {
		if one.Name() == space {
			t.Errorf("the network %s is left", space)
		}
	}
	devices, err := net.Interfaces()
	for _, d := range devices {
		if err != nil || strings.HasPrefix(d.Name, strings.TrimSuffix(space, "1")) {
			t.Errorf("the device %s is left, %v", d.Name, err)
		}
	}
}
