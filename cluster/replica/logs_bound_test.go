package replica

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/joblog"
)

// TestLiveLogs_bounded: the logs of open attempts use no more than their bound; those not written to for longest are
// dropped.
func TestLiveLogs_bounded(t *testing.T) {
	t.Parallel()
	ll := NewLogs(nil, 1<<20)
	line := []byte(strings.Repeat("x", 999) + "\n")
	for i := range 100 {
		l := rota.Lease{ID: rota.LeaseID{byte(i)}, Job: "j", Worker: "w"}
		for k := range 60 {
			ll.take(&l, rota.LogPart{At: uint64(1000 * k), Text: line})
		}
		if ll.bytes > 1<<20 {
			t.Fatalf("%d bytes are kept", ll.bytes)
		}
	}
	if ll.Here(rota.LeaseID{0}, 0).Known || !ll.Here(rota.LeaseID{99}, 0).Known || ll.Order.Len() != len(ll.of) ||
		len(ll.of) < 5 {
		t.Errorf("%d logs are kept", len(ll.of))
	}
	for id := range ll.of {
		ll.drop(id)
	}
	if ll.bytes != 0 {
		t.Errorf("%d bytes of nothing", ll.bytes)
	}
}

// TestPackLog packs the longest log, which fits, and rejects input that was not packed. A log is proposed again until
// it is archived, or can never be.
func TestLogs_settledByWhatLasts(t *testing.T) {
	t.Parallel()
	for kind, want := range map[rota.Kind]bool{rota.KindNotFound: true, rota.KindStale: true, rota.KindConflict: true,
		rota.KindInvalid:     true,
		rota.KindUnavailable: false, rota.KindTimeout: false, rota.KindExhausted: false, rota.KindMode: false} {
		if got := settlesLog(rota.Refusef(kind, "", "refused")); got != want {
			t.Errorf("a refusal of kind %s settles the log: %t", kind, got)
		}
	}
	if !settlesLog(nil) {
		t.Error("a log that was kept is not settled")
	}
}

func TestPackLog(t *testing.T) {
	t.Parallel()
	var w joblog.Writer
	for i := range 20_000 {
		_, _ = fmt.Fprintf(&w, "line %d\n", i*i)
	}
	log := w.Close()
	packed, err := packLog(log)
	if err != nil || len(packed) > len(log) {
		t.Fatalf("%d bytes are packed to %d, %v", len(log), len(packed), err)
	}
	back, err := UnpackLog(packed)
	if err != nil || !bytes.Equal(back.Append(nil), log) {
		t.Errorf("unpacking gives %d bytes, %v", len(back.Append(nil)), err)
	}
	if _, err := UnpackLog(packed[:len(packed)/2]); err == nil {
		t.Error("half of it is read")
	}
}
