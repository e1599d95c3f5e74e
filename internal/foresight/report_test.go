package foresight

import (
	"bytes"
	"context"
	"encoding/xml"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// reported simulates jobs and returns the pictures and the page of a report on them.
func reported(t *testing.T, name string, jobs []Job, workers []rota.WorkerSpec) (*Report, string) {
	t.Helper()
	r := NewReport("<b>load</b>")
	p := policy(t, "x:ranking=fifo")
	p.Name = name
	results, err := Run(context.Background(), &Plan{Jobs: jobs, Workers: workers, Policies: []Policy{p},
		Lived: r.Lived})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := r.Write(&page, results, []string{"a <note>"}); err != nil {
		t.Fatal(err)
	}
	return r, page.String()
}

// TestReport checks a page: it fetches and runs nothing, and names chosen by users are text.
func TestReport(t *testing.T) {
	jobs := []Job{job(0, 100, 100, 5), job(1, 50, 50, 10), job(2, 99, 99, 5), job(3, 50, 50, 5)}
	jobs[1].Tenant = "ann"
	r, page := reported(t, "<i>p</i>", jobs, Machine(10))
	if found := regexp.MustCompile(
		`(?i:https?:|src=|href=|url\(|@import|<script|<i>p|<note>|<b>load)|NaN|Inf|ZgotmplZ`).FindAllString(page,
		-1); found != nil {
		t.Errorf("the page has %q", found)
	}
	for _, want := range []string{"&lt;i&gt;p&lt;/i&gt;", "a &lt;note&gt;", "default-src 'none'",
		"job 2, tenant ann: 10 processors for 50 s, waited 149 s"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
			t.Errorf("a picture is not complete: %v", err)
		}
	}
	// From 1 to 100 the second job is pending, from 100 to 150 still one, as the last starts at 100; all end at 200. An
	// interval is 1.25 s, and shows how many are pending at its end.
	p := &r.pictures[0]
	for _, c := range []struct {
		at   float64
		want float64
	}{{0.5, 1}, {2.4, 1}, {5, 2}, {90, 2}, {110, 1}, {148, 1}, {152, 0}, {199, 0}} {
		if got := p.queue[int(c.at/200*bins)]; got != c.want {
			t.Errorf("at %g s %g jobs wait, want %g", c.at, got, c.want)
		}
	}
	if got := p.waits[0] * 3600; got != 149.0/2 || !math.IsNaN(p.waits[50]) {
		t.Errorf("jobs of the first stretch wait for %g s, those of the 51st, which has none, for %g", got, p.waits[50])
	}
}

// TestGantt compares bars of random lives with the runs that they show: the whole processor time, one job at a time on
// each row, and on the rows of its worker.
func TestGantt(t *testing.T) {
	var jobs []Job
	for i := range int64(300) {
		jobs = append(jobs, job(i*7%900+i, 1+i*13%170, 400, 1+i*5%4))
		jobs[i].Submit = seconds(i * 3)
	}
	workers := []rota.WorkerSpec{{ID: "a", Slots: 9, CPUMilli: 9000}, {ID: "b", Slots: 6, CPUMilli: 6000}}
	r, _ := reported(t, "p", jobs, workers)
	bars := r.pictures[0].gantt
	area, want := 0.0, 0.0
	for i, b := range bars {
		area += (b.to - b.from) * float64(b.rows)
		if b.of != 15 || b.row < 9 && b.row+b.rows > 9 || b.row+b.rows > 15 {
			t.Errorf("a bar is on the rows %d to %d of %d", b.row, b.row+b.rows, b.of)
		}
		for _, o := range bars[:i] {
			if b.row < o.row+o.rows && o.row < b.row+b.rows && b.from < o.to-1e-9 && o.from < b.to-1e-9 {
				t.Fatalf("%s and %s are on one row at the same time", b.label, o.label)
			}
		}
	}
	for i := range jobs {
		want += inHours(jobs[i].Run) * float64(jobs[i].CPUMilli/1000)
	}
	if math.Abs(area-want) > 1e-6 {
		t.Errorf("bars show %g processor hours, jobs ran for %g", area, want)
	}
}

// TestReport_empty writes a page without any policy.
func TestReport_empty(t *testing.T) {
	var page bytes.Buffer
	if err := NewReport("x").Write(&page, nil, nil); err != nil || !strings.Contains(page.String(), "<h1>x</h1>") ||
		strings.Contains(page.String(), "NaN") {
		t.Errorf("%v: %s", err, page.String())
	}
}
