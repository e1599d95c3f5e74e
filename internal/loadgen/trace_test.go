package loadgen

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

const swfLine = "1 0 -1 60 4 142.00 -1 8 -1 -1 1 7 -1 -1 2 -1 -1 -1"

func TestReplay(t *testing.T) {
	t.Parallel()
	log, err := flowfile.ReadSWF(strings.NewReader(swfLine+"\n2 100 -1 -1 -1 -1 -1 16 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\n"+
		"3 100 -1 5 0 -1 -1 -1 -1 -1 5 0 -1 -1 22 -1 -1 -1\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &replay{log: log, speedup: 10}
	if r.at(0) != 0 || r.at(1) != 10*time.Second || r.longest() != 6*time.Second {
		t.Errorf("times: %s, %s, %s", r.at(0), r.at(1), r.longest())
	}
	for i, want := range []struct {
		tenant   rota.TenantID
		priority int32
		cpu, run int64
	}{{"u7", 2, 4_000, 6_000}, {rota.DefaultTenant, 5, 16_000, 0}, {"u0", 10, 1_000, 500}} {
		s := r.spec(i, "x")
		if s.Tenant != want.tenant || s.Priority != want.priority || s.CPUMilli != want.cpu ||
			s.Simulate.Milliseconds() != want.run {
			t.Errorf("job %d: %+v, want %+v", i, s, want)
		}
		if err := s.CheckShape(rota.MaxPayloadBytes); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if r.share(1) != 16 || r.share(4) != 16 {
		t.Errorf("shares %d, %d: want at least the largest job's", r.share(1), r.share(4))
	}
	r.log.MaxProcs = 64
	if r.share(2) != 32 {
		t.Errorf("share %d of 64 for 2", r.share(2))
	}
	for procs, class := range map[int64]string{1: "serial", 2: "small", 8: "small", 9: "medium", 64: "medium",
		65: "large"} {
		if got := sizeClass(procs); got != class {
			t.Errorf("%d processors are %s", procs, got)
		}
	}
}
