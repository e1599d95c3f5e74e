package cluster

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cron"
	"github.com/rotasched/rota/internal/peer"
)

// tokyoEverywhere returns a release whose zones all have the rules of Asia/Tokyo.
func tokyoEverywhere(t *testing.T, release string, zones ...string) rota.TZInstall {
	t.Helper()
	files := make(map[string][]byte)
	for _, zone := range zones {
		files[zone] = tokyo(t)
	}
	packed, err := cron.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	return rota.TZInstall{Release: release, Released: rota.DateOf(time.Now()), Data: packed}
}

// tokyo returns TZif data without any transition: nine hours, all the time.
func tokyo(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	head := func(version byte) {
		b.WriteString("TZif")
		b.WriteByte(version)
		b.Write(make([]byte, 15))
		for _, n := range []byte{0, 0, 0, 0, 1, 4} { // one type, abbreviations of 4 bytes
			b.Write([]byte{0, 0, 0, n})
		}
		b.Write([]byte{0, 0, 0x7e, 0x90, 0, 0}) // 32,400 s
		b.WriteString("JST\x00")
	}
	head('2')
	head('2')
	b.WriteString("\nJST-9\n")
	return b.Bytes()
}

// inVancouver sets a schedule of 9 in the morning there.
func inVancouver(t *testing.T, n *Node) {
	t.Helper()
	s := rota.NewScheduleSpec("s", rota.NewJobSpec("t", nil))
	s.Cron, s.TZ, s.Job.Queue, s.Job.Tenant = "0 9 * * *", "America/Vancouver", rota.DefaultQueue, rota.DefaultTenant
	if _, err := n.SetSchedule(within(t, ample), s); err != nil {
		t.Fatal(err)
	}
}

// TestTZData_install puts a release into force, which each node then calculates with.
func TestTZData_install(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	b.eventually("rules version 2", func() bool { return n.replica.RulesInForce() >= 2 })
	inVancouver(t, n)
	winter := rota.DateOf(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
	next := func(n *Node) (string, string) {
		t.Helper()
		dates, by, _, err := n.NextDates(within(t, ample), "s", winter, 1, peer.ReadOptions{})
		if err != nil || len(dates) != 1 {
			t.Fatal(dates, err)
		}
		return dates[0].String(), by
	}
	if at, by := next(n); at != "2026-12-01T16:00:00.000Z" || by != cron.Release {
		t.Errorf("before, the next date is %s by %s", at, by)
	}
	status, err := n.Status(within(t, ample))
	if err != nil || status.TZData.Release != cron.Release || status.TZData.Index != 0 ||
		len(status.TZData.SHA256) != 32 {
		t.Errorf("before, the status has %+v, %v", status.TZData, err)
	}
	got, err := n.InstallTZData(within(t, ample), tokyoEverywhere(t, "2099a", "America/Vancouver"))
	if err != nil || got.Release != "2099a" || got.Index == 0 {
		t.Fatal(got, err)
	}
	for _, n := range b.nodes {
		if at, by := next(n); at != "2026-12-02T00:00:00.000Z" || by != got.Name() {
			t.Errorf("%s: the next date is %s by %s, want 9 in Tokyo by %s", n.cfg.Node, at, by, got.Name())
		}
		if s, _, err := n.Schedule(within(t, ample), "s", peer.ReadOptions{}); err != nil ||
			time.UnixMilli(int64(s.Next)).UTC().Hour() != 0 {
			t.Errorf("%s: the schedule is due at %s, %v", n.cfg.Node, s.Next, err)
		}
		if status, err := n.Status(within(t, ample)); err != nil || status.TZData.Name() != got.Name() ||
			status.TZData.Index != got.Index {
			t.Errorf("%s: the status has %+v, %v", n.cfg.Node, status.TZData, err)
		}
	}
	if _, err := n.InstallTZData(within(t, ample), tokyoEverywhere(t, "2098z",
		"America/Vancouver")); rota.KindOf(err) != rota.KindConflict || rota.ErrorOf(err).Subject != "release" {
		t.Errorf("an older release: %v", err)
	}
	older := tokyoEverywhere(t, "2098z", "America/Vancouver")
	older.Older = true
	if got, err := n.InstallTZData(within(t, ample), older); err != nil || got.Release != "2098z" {
		t.Errorf("an older release on request: %+v, %v", got, err)
	}
	if filled, _, err := n.BackfillSchedule(within(t, ample), "s", 1_700_000_000_000, 1_700_000_000_000+24*3600*1000,
		rota.OverlapSkip); err != nil || filled != 1 {
		t.Errorf("a backfill by installed zones: %d, %v", filled, err)
	}
}

// TestTZData_refuses: the edge rejects data that the state machine would store without opening it.
func TestTZData_refuses(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	b.eventually("rules version 2", func() bool { return n.replica.RulesInForce() >= 2 })
	inVancouver(t, n)
	good := tokyoEverywhere(t, "2099a", "America/Vancouver")
	for name, c := range map[string]struct {
		change  func(*rota.TZInstall)
		kind    rota.Kind
		subject string
	}{
		"no release": {func(i *rota.TZInstall) { i.Release = "latest" }, rota.KindInvalid, "release"},
		"the future": {func(i *rota.TZInstall) { i.Released += 3 * 24 * 3600 * 1000 }, rota.KindInvalid, "released"},
		"damage":     {func(i *rota.TZInstall) { i.Data = i.Data[:len(i.Data)-9] }, rota.KindInvalid, "tzdata"},
		"a zip":      {func(i *rota.TZInstall) { i.Data = zipped(t) }, rota.KindInvalid, "tzdata"},
		"no zone of a schedule": {func(i *rota.TZInstall) { i.Data = tokyoEverywhere(t, "2099a", "Asia/Tokyo").Data },
			rota.KindConflict,
			"tzdata"},
	} {
		i := good
		c.change(&i)
		if _, err := n.InstallTZData(within(t, ample), i); rota.KindOf(err) != c.kind ||
			rota.ErrorOf(err).Subject != c.subject {
			t.Errorf("%s: %v, want %s(%s)", name, err, c.kind, c.subject)
		}
	}
	if status, err := n.Status(within(t, ample)); err != nil || status.TZData.Index != 0 {
		t.Errorf("something was installed: %+v, %v", status.TZData, err)
	}
}

func zipped(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := zip.NewWriter(&b).Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTZData_old reports a release that is older than half a year, once a schedule uses a zone.
func TestTZData_old(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	b.eventually("rules version 2", func() bool { return n.replica.RulesInForce() >= 2 })
	problems := func() string { return strings.Join(n.zones.Problems(), "\n") }
	old := tokyoEverywhere(t, "2020a", "America/Vancouver")
	old.Released, old.Older = rota.DateOf(time.Now().Add(-cron.StaleAfter-time.Hour)), true
	if _, err := n.InstallTZData(within(t, ample), old); err != nil {
		t.Fatal(err)
	}
	if got := problems(); got != "" {
		t.Errorf("no schedule is in a zone: %q", got)
	}
	inVancouver(t, n)
	for _, want := range []string{"release 2020a, is 183 days old",
		"this binary has the newer release " + cron.Release} {
		if got := problems(); !strings.Contains(got, want) {
			t.Errorf("problems are %q, want %q", got, want)
		}
	}
	ages := seriesOf(n.zones.Collectors(), "rota_tzdata_age_seconds")
	if len(ages) != 1 {
		t.Errorf("rota_tzdata_age_seconds is %v", ages)
	}
	for _, age := range ages {
		if age < cron.StaleAfter.Seconds() {
			t.Errorf("rota_tzdata_age_seconds is %v", ages)
		}
	}
}
