package fsm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// tzdataOp installs a release whose packed zones are its own name.
func tzdataOp(release string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetTzdata{SetTzdata: &fsmpb.SetTZData{Release: release,
		ReleasedMs: 1_790_000_000_000, Data: []byte("zones of " + release)}}}
}

// installedName returns the id of the installed zones, "" if there are none.
func installedName(b *bench) string {
	t, _, ok := InstalledTZData(&b.View)
	if !ok {
		return ""
	}
	return t.Name()
}

// byInstalled makes the dates of a Fire calculated by the installed zones.
func byInstalled(b *bench, op *fsmpb.Op) *fsmpb.Op {
	op.GetFire().Tzdata = installedName(b)
	return op
}

// TestTZData_install puts releases into force, which snapshots carry.
func TestTZData_install(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(switchOp(entry.RulesVersion))
	root := rota.CertPrincipal(access.RoleRoot, "n")
	if _, _, ok := InstalledTZData(&b.View); ok {
		t.Error("a new cluster has installed time zones")
	}
	for _, release := range []string{"2026f", "2026g", "2026f"} {
		a := b.entry(by(root, tzdataOp(release)))
		sum := sha256.Sum256([]byte("zones of " + release))
		for what, m := range map[string]*Machine{"the state": b.Machine, "a snapshot": b.restored()} {
			got, data, ok := InstalledTZData(&m.View)
			if !ok || got.Release != release || !bytes.Equal(got.SHA256, sum[:]) ||
				string(data) != "zones of "+release || got.Index != b.At ||
				got.Bytes != 14 || got.By != root || got.Installed != b.Header.Date() ||
				got.Name() != fmt.Sprintf("%s-%x", release, sum[:8]) {
				t.Errorf("%s of %s: %+v %q %v", what, release, got, data, ok)
			}
		}
		if len(a.Events) != 1 || a.Events[0].Kind != rota.EventClusterChanged ||
			!strings.Contains(a.Events[0].Payload, fmt.Sprintf(`"tzdata":"%s","sha256":"%x"`, release, sum)) {
			t.Errorf("events are %+v", a.Events)
		}
		b.existed(by(root, tzdataOp(release)))
	}
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "second"}); err != nil {
		t.Fatal(err)
	}
	if got, _, ok := InstalledTZData(&m.View); !ok || got.Release != "2026f" {
		t.Errorf("the restored cluster has %+v", got)
	}
}

// TestTZData_refuses covers each refusal, including that of rules version 1.
func TestTZData_refuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.refuses(rota.KindConflict, "rules_version", tzdataOp("2026f"))
	b.ok(scheduleOp("s"))
	backfill := backfillOp("s", 1, rota.OverlapSkip, 1)
	backfill.GetBackfillSchedule().Tzdata = "2026f-0000000000000000"
	b.refuses(rota.KindConflict, "rules_version", backfill)
	b.ok(switchOp(entry.RulesVersion))
	changed := func(change func(*fsmpb.SetTZData)) *fsmpb.Op {
		op := tzdataOp("2026f")
		change(op.GetSetTzdata())
		return op
	}
	for _, release := range []string{"", "2026", "2026F", "26f", "3026f", "2026fghi", "2026é"} {
		b.refuses(rota.KindInvalid, "release", changed(func(o *fsmpb.SetTZData) { o.Release = release }))
	}
	for _, ms := range []int64{0, -1, 1 << 62} {
		b.refuses(rota.KindInvalid, "released", changed(func(o *fsmpb.SetTZData) { o.ReleasedMs = ms }))
	}
	for _, n := range []int{0, rota.MaxTZDataBytes + 1} {
		b.refuses(rota.KindInvalid, "tzdata", changed(func(o *fsmpb.SetTZData) { o.Data = make([]byte, n) }))
	}
	b.ok(changed(func(o *fsmpb.SetTZData) { o.Data = make([]byte, rota.MaxTZDataBytes) }))
}

// TestFire_refusesOtherZones checks that one release decides each date from the entry on that installs it.
func TestFire_refusesOtherZones(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(switchOp(entry.RulesVersion))
	b.ok(scheduleOp("s"))
	b.tick(rota.Clock(aMinute))
	before := b.fireOp("s", b.Header.Date())
	b.ok(tzdataOp("2026f"))
	b.refuses(rota.KindStale, "tzdata", before)
	b.ok(byInstalled(b, b.fireOp("s", b.Header.Date())))
	b.tick(rota.Clock(aMinute))
	of := byInstalled(b, b.fireOp("s", b.Header.Date()))
	b.ok(tzdataOp("2026g"))
	b.refuses(rota.KindStale, "tzdata", of)
	fill := backfillOp("s", b.schedule("s").Version, rota.OverlapQueueAll, 1_700_000_000_000)
	b.refuses(rota.KindStale, "tzdata", fill)
	in, _, _ := InstalledTZData(&b.View)
	fill.GetBackfillSchedule().Tzdata = in.Name()
	b.ok(fill)
	b.restored()
}
