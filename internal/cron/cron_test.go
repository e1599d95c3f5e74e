package cron

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// Parse does the same steps as setting a schedule now.
func Parse(expr, zone string, anchor, from int64) (Table, error) {
	times := &rota.ScheduleTimes{Cron: expr, TZ: zone}
	if err := Embedded().Check(times, rota.Date(from)); err != nil {
		return nil, err
	}
	return Embedded().Of(times, rota.Date(anchor))
}

// ms reads a date.
func ms(t testing.TB, s string) int64 {
	t.Helper()
	d, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return d.UnixMilli()
}

func shown(date int64) string { return time.UnixMilli(date).UTC().Format(time.RFC3339) }

// between lists the dates of (from, until].
func between(t testing.TB, expr, zone, from, until string) (list []string) {
	t.Helper()
	x, err := Parse(expr, zone, 0, ms(t, from))
	if err != nil {
		t.Fatal(err)
	}
	dates, before := Between(x, ms(t, from), ms(t, until), 1000)
	if before != 0 {
		t.Fatalf("%s: %d dates are left out before the newest", expr, before)
	}
	for _, d := range dates {
		list = append(list, shown(d))
	}
	return list
}

// TestNext_daylightSaving: one rule at each change (SPEC §17.2).
func TestNext_daylightSaving(t *testing.T) {
	for _, c := range []struct{ expr, zone, from, until, want string }{
		// A time that is left out becomes the first instant after the gap; a repeated one counts once.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
			"2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			"2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		// All dates left out by a gap are one date, together with a regular date on that instant.
		{"*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z",
			"2026-03-29T01:00:00Z 2026-03-29T01:30:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z"},
		// Hours that begin with * go by elapsed time.
		{"30 * * * *", "Europe/Berlin", "2026-03-28T23:59:00Z", "2026-03-29T02:31:00Z",
			"2026-03-29T00:30:00Z 2026-03-29T01:30:00Z 2026-03-29T02:30:00Z"},
		{"30 * * * *", "Europe/Berlin", "2026-10-24T23:59:00Z", "2026-10-25T02:31:00Z",
			"2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-25T02:30:00Z"},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-28T22:00:00Z", "2026-03-29T03:00:00Z",
			"2026-03-28T23:00:00Z 2026-03-29T02:00:00Z"},
		{"0 */2 * * *", "Europe/Berlin", "2026-10-24T22:30:00Z", "2026-10-25T03:00:00Z",
			"2026-10-25T00:00:00Z 2026-10-25T01:00:00Z 2026-10-25T03:00:00Z"},
		// Half an hour; a whole day; a midnight that is left out.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-05T00:00:00Z", "2026-04-04T14:45:00Z"},
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-31T23:00:00Z", "2011-12-30T10:00:00Z"},
		{"0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-24T12:00:00Z", "2026-04-23T22:00:00Z"},
		{"30 2 * * *", "", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "2026-03-29T02:30:00Z"},
	} {
		if got := strings.Join(between(t, c.expr, c.zone, c.from, c.until), " "); got != c.want {
			t.Errorf("%s in %s: %s, not %s", c.expr, c.zone, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	const from, until = "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
	for _, c := range []struct {
		expr, first string
		dates       int
	}{
		{"@hourly", "2026-01-01T01:00:00Z", 8760}, {"@daily", "2026-01-02T00:00:00Z", 365},
		{"@weekly", "2026-01-04T00:00:00Z", 52},
		{"@monthly", "2026-02-01T00:00:00Z", 12}, {"@yearly", "2027-01-01T00:00:00Z", 1},
		{"@every 90m", "2026-01-01T01:30:00Z", 5840},
		{"0 0 ? * ?", "2026-01-02T00:00:00Z", 365}, {"0 0 * * 7", "2026-01-04T00:00:00Z", 52},
		{"0 0 * * SUN", "2026-01-04T00:00:00Z", 52},
		{"0 0 * * mon-Fri", "2026-01-02T00:00:00Z", 261}, {"0 0 * * 5-7", "2026-01-02T00:00:00Z", 157},
		{"0 0 * * fri-sun", "2026-01-02T00:00:00Z", 157},
		{"0 0 1 jan,JUL *", "2026-07-01T00:00:00Z", 2}, {"0 0 13 * fri", "2026-01-02T00:00:00Z",
			62}, // 53 Fridays, 12 13ths, 3 days that are both
		{"0 0 */2 * mon", "2026-01-05T00:00:00Z", 26}, {"5-20/5,50 3 1 1 *", "2026-01-01T03:05:00Z", 5},
		{"*/15 0 0 1 1 *", "2026-01-01T00:00:15Z", 4},
	} {
		x, err := Parse(c.expr, "", 0, ms(t, from))
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		first, _ := x.Next(ms(t, from))
		newest, before := Between(x, ms(t, from), ms(t, until), 10)
		if shown(first) != c.first || len(newest)+int(before) != c.dates {
			t.Errorf("%s: first on %s, %d dates; want %s and %d", c.expr, shown(first), len(newest)+int(before),
				c.first, c.dates)
		}
	}
}

func TestParse_refuses(t *testing.T) {
	for _, c := range []struct{ expr, zone, field, text string }{
		{"61 * * * *", "", "cron", "minute must be between 0 and 59, got 61"},
		{"0 24 * * *", "", "cron", "hour must be between 0 and 23, got 24"},
		{"0 0 0 * *", "", "cron", "day of month must be between 1 and 31, got 0"},
		{"0 0 * 13 *", "", "cron", "month must be between 1 and 12, got 13"},
		{"0 0 * * 8", "", "cron", "day of week must be"}, {"60 0 0 * * *", "", "cron",
			"second must be between 0 and 59, got 60"},
		{"0 0 * foo *", "", "cron", `got "foo"; use 1 to 12, or jan to dec`}, {"* * * *", "", "cron", "4 fields"},
		{" ", "", "cron", "0 fields"}, {"@often", "", "cron", "use @hourly"},
		{"0 0 30 2 *", "", "cron", "no date within five years"},
		{"20-5 * * * *", "", "cron", "runs backwards"}, {"*/0 * * * *", "", "cron", "no step"},
		{"5/15 * * * *", "", "cron", "steps from one value"},
		{"*/ * * * *", "", "cron", "no step"}, {"1,,2 * * * *", "", "cron", `got ""`},
		{"@every x", "", "cron", "invalid duration"},
		{"@every 10ms", "", "cron", "between 1s and"}, {"0 0 * * *", "Mars/X", "tz",
			`tz: got "Mars/X", want a time zone of release 2026f`},
		{"0 0 * * *", "../etc/passwd", "tz", "want a time zone"},
		{"0 0 * * *", "Local", "tz", "want a time zone"}, {strings.Repeat("1,", 600) + "1 * * * *", "", "cron",
			"maximum 1024"},
	} {
		_, err := Parse(c.expr, c.zone, 0, ms(t, "2026-01-01T00:00:00Z"))
		e := rota.ErrorOf(err)
		if !errors.Is(err, rota.ErrInvalid) || e.Subject != c.field || !strings.Contains(e.Text, c.text) {
			t.Errorf("%q in %q: got %v, want INVALID(%s) with %q", c.expr, c.zone, err, c.field, c.text)
		}
	}
}

// drawn is a random field: its text, and the values that it stands for.
func drawn(r *rand.Rand, f field) (string, []int) {
	if r.IntN(3) == 0 {
		step := 1 + r.IntN(min(f.max, 12))
		var set []int
		for v := f.min; v <= f.max; v += step {
			if f.max != 7 || v != 7 {
				set = append(set, v)
			}
		}
		return fmt.Sprintf("*/%d", step), set
	}
	var parts []string
	var set []int
	for range 1 + r.IntN(2) {
		from := f.min + r.IntN(f.max-f.min+1)
		to := from + r.IntN(f.max-from+1)
		if r.IntN(2) == 0 {
			to = from
		}
		for v := from; v <= to; v++ {
			if f.max == 7 {
				set = append(set, v%7)
			} else {
				set = append(set, v)
			}
		}
		if from == to {
			parts = append(parts, fmt.Sprint(from))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", from, to))
		}
	}
	return strings.Join(parts, ","), set
}

// TestNext_naive walks second by second, and remembers each local time that was shown.
func TestNext_naive(t *testing.T) {
	changes := []struct{ zone, at string }{
		{"Europe/Berlin", "2026-03-29T01:00:00Z"}, {"Europe/Berlin", "2026-10-25T01:00:00Z"},
		{"America/New_York", "2026-03-08T07:00:00Z"},
		{"America/New_York", "2040-11-04T06:00:00Z"}, {"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z"}, {"Africa/Cairo", "2026-04-23T22:00:00Z"},
		{"Africa/Casablanca", "2026-02-15T02:00:00Z"},
		{"America/Havana", "2026-11-01T05:00:00Z"}, {"Europe/Berlin", "2028-12-31T12:00:00Z"},
		{"Europe/Berlin", "2029-01-01T00:00:00Z"}, {"Asia/Kathmandu", "2026-05-05T05:00:00Z"},
		{"Asia/Pyongyang", "2018-05-04T15:00:00Z"},
	}
	for seed := range 24 {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		c := changes[r.IntN(len(changes))]
		var words []string
		var sets [len(fields)][]int
		for i, f := range fields {
			if i > 2 && r.IntN(2) == 0 {
				words = append(words, "*")
				for v := f.min; v <= f.max; v++ {
					sets[i] = append(sets[i], v)
				}
				continue
			}
			w, set := drawn(r, f)
			words, sets[i] = append(words, w), set
		}
		expr := strings.Join(words, " ")
		from := ms(t, c.at)/1000 - int64(r.IntN(30*3600))
		until := ms(t, c.at)/1000 + int64(r.IntN(30*3600))
		x, err := parseOnly(expr, c.zone)
		if err != nil {
			t.Fatal(expr, err)
		}
		want := naive(t, words, sets, c.zone, from, until)
		var got []int64
		for at := from * 1000; ; {
			d, ok := x.Next(at)
			if !ok || d > until*1000 {
				break
			}
			got, at = append(got, d/1000), d
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s in %s after %s: %v, not %v", seed, expr, c.zone, shown(from*1000), got, want)
		}
		if n := x.count(from*1000, until*1000); n != int64(len(want)) {
			t.Fatalf("seed %d: %s in %s after %s: %d dates are counted, not %d", seed, expr, c.zone, shown(from*1000),
				n, len(want))
		}
	}
}

// parseOnly reads an expression that may have no date.
func parseOnly(expr, zone string) (*expression, error) {
	where, err := Embedded().Zone(zone)
	if err != nil {
		return nil, err
	}
	return parseFields(expr, where)
}

func naive(t *testing.T, words []string, sets [len(fields)][]int, zone string, from, until int64) (list []int64) {
	t.Helper()
	where, err := Embedded().Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	var in [len(fields)][64]bool
	for i, set := range sets {
		for _, v := range set {
			in[i][v] = true
		}
	}
	matches := func(local int64) bool {
		l := time.Unix(local, 0).UTC()
		day, week := in[3][l.Day()], in[5][l.Weekday()]
		fits := day && week
		if words[3][0] != '*' && words[5][0] != '*' {
			fits = day || week
		}
		return fits && in[0][l.Second()] && in[1][l.Minute()] && in[2][l.Hour()] && in[4][l.Month()]
	}
	elapsed := words[2][0] == '*'
	seen := make(map[int64]bool)
	last := int64(0)
	for at := from - 30*3600; at <= until; at++ {
		_, offset := time.Unix(at, 0).In(where).Zone()
		local := at + int64(offset)
		due := matches(local) && (elapsed || !seen[local])
		for l := last + 1; last != 0 && !elapsed && l < local; l++ {
			due = due || matches(l) && !seen[l]
			seen[l] = true
		}
		seen[local], last = true, local
		if due && at > from {
			list = append(list, at)
		}
	}
	return list
}

// TestBetween: the newest are those that a walk ends with, and the rest are counted.
func TestBetween(t *testing.T) {
	for seed := range 200 {
		r := rand.New(rand.NewPCG(uint64(seed), 18))
		expr := []string{"*/5 * * * *", "0 3 * * *", "30 2 * * sun", "@every 7m", "0 0 1 * *",
			"*/10 * * * * *"}[r.IntN(6)]
		from := ms(t, "2026-03-01T00:00:00Z") + r.Int64N(40*day)
		until := from + r.Int64N(12*day)
		table, err := Parse(expr, "Europe/Berlin", from, from)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			table = clamped{table, from + r.Int64N(3*day), until - r.Int64N(2*day)}
		}
		var all []int64
		for at := from; ; {
			d, ok := table.Next(at)
			if !ok || d > until {
				break
			}
			all, at = append(all, d), d
		}
		most := 1 + r.IntN(100)
		newest, before := Between(table, from, until, most)
		if cut := max(0, len(all)-most); before != int64(cut) || !slices.Equal(newest, all[cut:]) {
			t.Fatalf("seed %d: %s: got %d and %d before them; of %d dates in all, want %d", seed, expr, len(newest),
				before, len(all), most)
		}
	}
	given := dates{10, 20, 30}
	if newest, before := Between(given, 10, 30, 1); before != 1 || !slices.Equal(newest, []int64{30}) {
		t.Error(newest, before)
	}
	if e, _ := Every(1000, 300); e.(every).count(-5000, 5000) != 10 {
		t.Error("a period is not counted over 1970")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30 2 * * *", "@every 5m", "*/5 0-6/2 1,15 jan-mar ? *", "0 0 13 * fri", "61 * * * *",
		"@yearly"} {
		f.Add(s, "Europe/Berlin", int64(1_790_000_000_000))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, from int64) {
		if from %= 1 << 43; from < 1 || expr == "" {
			return // no date of a cluster, no cron expression
		}
		table, err := Parse(expr, zone, from, from)
		if err != nil {
			if rota.KindOf(err) != rota.KindInvalid {
				t.Fatal(err)
			}
			return
		}
		d, ok := table.Next(from)
		if e, again := table.Next(d - 1); !ok || d <= from || !again || e != d {
			t.Fatalf("%q after %d: %d, then %d", expr, from, d, e)
		}
		if newest, before := Between(table, from, d, 10); before != 0 || len(newest) != 1 || newest[0] != d {
			t.Fatalf("%q between %d and %d: %v after %d", expr, from, d, newest, before)
		}
	})
}
