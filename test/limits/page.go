package main

import (
	"bytes"
	_ "embed" // the template
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/template"
)

//go:embed page.tmpl
var pageText string

// leftOut are systems that are not part of the report, and why.
var leftOut = []string{
	"**River**: its concurrency limits are part of River Pro, a paid edition.",
}

// faultTitles and faultTexts describe the faults.
var (
	faultTitles = map[fault]string{noFault: "No fault", serverFault: "The deciding server is killed",
		workerFault: "A worker is killed", clockFault: "A worker's clock is wrong", cutFault: "A worker is cut off"}
	faultTexts = map[fault]string{
		noFault: "The measured part follows the calm part after 10 s.",
		serverFault: "The deciding server gets SIGKILL and starts again after 2 s: rota's leader, Redis, PostgreSQL " +
			"or Temporal's server.",
		workerFault: "One of two workers gets SIGKILL. Another starts after 2 s.",
		clockFault: "One of two workers gets SIGTERM, and is replaced by one whose wall clock is 90 s ahead. libfaketime moves " +
			"the\nclock of Node and Python, and costs these some time; Go programs are built with another `time.Now`.",
		cutFault: "The proxy of one worker passes no bytes for 50 s, and keeps connections open. Four more keys have calls of " +
			"70 s, which\nbegin 5 s before the cut. The worker can still reach the provider.",
	}
)

// measure is one row of a fault's table.
type measure struct {
	title string
	// needs is the limit that the system must offer, jobs whether it must have jobs.
	needs kind
	jobs  bool
	of    func(f figures) float64
	text  string
	// inSummary means that the row is part of the first table.
	inSummary bool
}

var measures = []measure{
	{"calls at a time, over", long, false, func(f figures) float64 { return f.Concurrency.Over }, "%.0f", true},
	{"starts in 1 s, over", short, false, func(f figures) float64 { return f.Starts1.Over }, "%.0f", true},
	{"starts in 10 s, over", short, false, func(f figures) float64 { return f.Starts10.Over }, "%.0f", true},
	{"starts in 60 s, over", short, false, func(f figures) float64 { return f.Starts60.Over }, "%.0f", true},
	{"units in 10 s, over", costly, false, func(f figures) float64 { return f.Units10.Over }, "%.0f", true},
	{"units in 60 s, over", costly, false, func(f figures) float64 { return f.Units60.Over }, "%.0f", true},
	{"starts unused", short, false, func(f figures) float64 { return 100 * f.Unused[short] }, "%.0f %%", true},
	{"concurrency unused", long, false, func(f figures) float64 { return 100 * f.Unused[long] }, "%.0f %%", true},
	{"units unused", costly, false, func(f figures) float64 { return 100 * f.Unused[costly] }, "%.0f %%", true},
	{"jobs lost", "", true, func(f figures) float64 { return float64(f.Lost) }, "%.0f", true},
	{"jobs not called yet at the end", "", true, func(f figures) float64 { return float64(f.Waiting) }, "%.0f", false},
	{"jobs called twice", "", true, func(f figures) float64 { return float64(f.Twice) }, "%.0f", true},
	{"of them overlapping", "", true, func(f figures) float64 { return float64(f.Overlapping) }, "%.0f", false},
	{"explained second calls", "", true, func(f figures) float64 { return float64(f.Explained) }, "%.0f", false},
	{"jobs acknowledged", "", true, func(f figures) float64 { return float64(f.Acked) }, "%.0f", false},
	{"starts used in the calm part", short, false, func(f figures) float64 { return 100 * f.CalmShare[short] },
		"%.0f %%", false},
	{"concurrency used in the calm part", long, false, func(f figures) float64 { return 100 * f.CalmShare[long] },
		"%.0f %%", false},
	{"units used in the calm part", costly, false, func(f figures) float64 { return 100 * f.CalmShare[costly] },
		"%.0f %%", false},
}

// applies reports whether a system has a figure of a row.
func (m measure) applies(s system) bool {
	short := strings.Contains(m.title, "used") || strings.Contains(m.title, " 1 s") || strings.Contains(m.title, " 10 s")
	return (m.needs == "" || s.has[m.needs]) && !(m.jobs && s.noJobs) && !(s.perMinute && short)
}

// cell returns the worst figure of some runs of a system.
func (m measure) cell(s system, runs []result) string {
	if !m.applies(s) {
		return "–"
	}
	worst, any := 0.0, false
	for _, r := range runs {
		if r.Error == "" {
			worst, any = max(worst, m.of(r.Figures)), true
		}
	}
	if !any {
		return "not run"
	}
	return fmt.Sprintf(m.text, worst)
}

// runsOf returns the results of a system, under one fault or under all.
func runsOf(results []result, system string, under fault) (some []result) {
	for _, r := range results {
		if r.System == system && (under == "" || r.Fault == under) {
			some = append(some, r)
		}
	}
	return some
}

// notRun returns a line for each system without results.
func notRun(results []result) (lines []string) {
	for _, s := range systems {
		if len(runsOf(results, s.name, "")) == 0 {
			lines = append(lines, "**"+s.title+"**: not run yet; `make limits-report ONLY="+s.name+"` adds it.")
		}
	}
	return lines
}

// reported returns the systems that have results.
func reported(results []result) (some []system) {
	for _, s := range systems {
		if len(runsOf(results, s.name, "")) > 0 {
			some = append(some, s)
		}
	}
	return some
}

// table returns a table with a row for each measure and a column for each system.
func table(results []result, under fault, rows []measure) string {
	var b strings.Builder
	some := reported(results)
	b.WriteString("| |")
	for _, s := range some {
		fmt.Fprintf(&b, " %s |", s.title)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---:|", len(some)))
	for _, m := range rows {
		cells, shown := "", under == ""
		for _, s := range some {
			cell := m.cell(s, runsOf(results, s.name, under))
			shown = shown || cell != "–" && cell != "0" && cell != "0 %"
			cells += " " + cell + " |"
		}
		if under != "" && under != noFault && strings.Contains(m.title, "calm") {
			shown = false // before the fault, as in the run without one
		}
		if shown { // the page states that rows of zeros are left out
			b.WriteString("| " + m.title + " |" + cells + "\n")
		}
	}
	return b.String()
}

// better lists where another system did better than rota: by one or more, for percentages by more than the tolerance.
func better(results []result) string {
	var lines []string
	for _, f := range faults {
		own := runsOf(results, rotaSystem.name, f)
		for _, s := range reported(results) {
			theirs := runsOf(results, s.name, f)
			if len(own) == 0 || own[0].Error != "" || len(theirs) == 0 || theirs[0].Error != "" {
				continue
			}
			for _, m := range measures {
				if !m.comparable(s) {
					continue
				}
				mine, other := m.of(own[0].Figures), m.of(theirs[0].Figures)
				difference, least := mine-other, 1.0
				if strings.Contains(m.title, "calm") {
					difference = -difference
				}
				if strings.Contains(m.text, "%%") {
					least = 100 * tolerance
				}
				if difference >= least {
					lines = append(lines, fmt.Sprintf("- %s, %s: %s "+m.text+", rota "+m.text+".", faultTitles[f], m.title,
						s.title, other, mine))
				}
			}
		}
	}
	if len(lines) == 0 {
		return wrap("In no row of these tables did another system do better than rota, by one or more or by five points. Each "+
			"figure is of one run.",
			120, "")
	}
	return "Another system did better than rota here:\n\n" + strings.Join(lines, "\n")
}

// comparable reports whether a row of a system can be compared with rota's. A share of a lower limit cannot.
func (m measure) comparable(s system) bool {
	if m.title == "jobs acknowledged" ||
		strings.Contains(m.title, "calm") && s.load != nil {
		return false
	}
	return m.applies(s)
}

// systemsText lists the systems with versions and settings.
func systemsText(results []result) string {
	var b strings.Builder
	for _, s := range reported(results) {
		runs := runsOf(results, s.name, "")
		last := runs[len(runs)-1]
		for _, r := range runs {
			if r.Version != "" {
				last = r
			}
		}
		fmt.Fprintf(&b, "### %s\n\n%s; run on %s. The deciding server is %s.\n\n", s.title, last.Version,
			last.Date.Format("2006-01-02"), s.server)
		for _, line := range s.settings {
			fmt.Fprintf(&b, "- %s\n", wrap(line, 118, "  "))
		}
		for _, r := range runs {
			if r.Error != "" {
				fmt.Fprintf(&b, "- %s: not run: %s\n", faultTitles[r.Fault], strings.Join(strings.Fields(r.Error), " "))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// wrap breaks a text into lines of at most width bytes; all but the first are indented.
func wrap(text string, width int, indent string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n"+indent)
}

// writePage writes the page from all results.
func writePage(path string, results []result, o options) error {
	type part struct{ Title, Text, Table string }
	var parts []part
	for _, f := range faults {
		parts = append(parts, part{faultTitles[f], faultTexts[f], table(results, f, measures)})
	}
	summary := slices.DeleteFunc(slices.Clone(measures), func(m measure) bool { return !m.inSummary })
	var b bytes.Buffer
	err := template.Must(template.New("page").Parse(pageText)).Execute(&b, map[string]any{
		"Summary": table(results, "", summary), "Better": better(results), "Faults": parts, "Keys": thousands(o.keys),
		"L": standard, "Units": thousands(standard.Units), "UnitsBurst": thousands(standard.UnitsBurst),
		"Machine": fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH), "Seconds": o.seconds,
		"HandOver": "250 ms", "Tolerance": int(100 * tolerance), "Report": "1 s",
		"Systems": systemsText(results), "LeftOut": append(notRun(results), leftOut...)})
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), 0o644)
}

// thousands returns a number below a million with a comma.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
