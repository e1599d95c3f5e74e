package foresight

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

// bins is the number of intervals into which a report divides time.
const bins = 160

// The sizes of pictures.
const (
	picWidth, picHeight = 900.0, 220.0
	// maxGantt is how many runs a picture of processors shows, ganttRows the maximum of rows for processors.
	maxGantt, ganttRows = 1_000, 64
	// maxFair is how many tenants are shown.
	maxFair = 12
)

var colours = []string{"#2a6fdb", "#d1495b", "#2e8b57", "#b8860b", "#7b5ea7", "#00838f", "#8d6e63", "#546e7a"}

// Report is a page with pictures of the simulation: one self-contained HTML file.
type Report struct {
	title    string
	pictures []picture
}

// picture is the data drawn for a policy.
type picture struct {
	name         string
	hours        float64
	waits, queue []float64 // by interval of [0, hours]; NaN if no job arrived
	gantt        []bar
	ganttHours   float64
}

// bar is a run on rows of processors.
type bar struct {
	from, to  float64 // hours
	row, rows int
	of        int
	label     string
}

// NewReport begins a report on a load.
func NewReport(title string) *Report { return &Report{title: title} }

// Lived adds a policy's life.
func (r *Report) Lived(p *Policy, l *Life, fates []Fate) {
	begin, end := l.Jobs[0].Submit, l.Jobs[0].Submit+1
	for i := range fates {
		end = max(end, fates[i].End)
	}
	pic := picture{name: p.Name, hours: inHours(end - begin), waits: make([]float64, bins),
		queue: make([]float64, bins)}
	at := func(ms int64) int { return int(min(int64(bins)-1, (ms-begin)*bins/(end-begin))) }
	came, delta := make([]float64, bins), make([]float64, bins)
	for i := range fates {
		f := &fates[i]
		left := f.Start
		if left < 0 {
			left = f.End
		} else {
			came[at(f.Ready)]++
			pic.waits[at(f.Ready)] += inHours(left - f.Ready)
		}
		delta[at(f.Ready)]++
		delta[at(left)]--
	}
	queued := 0.0
	for b := range bins {
		pic.waits[b] /= came[b] // NaN if none arrived
		queued += delta[b]
		pic.queue[b] = queued
	}
	pic.gantt, pic.ganttHours = gantt(l, fates, begin)
	r.pictures = append(r.pictures, pic)
}

func inHours(ms int64) float64 { return float64(ms) / 3_600_000 }

// gantt puts the first runs on rows of processors.
func gantt(l *Life, fates []Fate, begin int64) (bars []bar, hours float64) {
	unit := max(1000, (capacity(l.Workers)+ganttRows-1)/ganttRows)
	first := make([]int, len(l.Workers)) // each worker's first row
	total := 0
	for i := range l.Workers {
		first[i] = total
		total += int(max(1, l.Workers[i].CPUMilli/unit))
	}
	var order []int
	for i := range fates {
		if fates[i].Start >= 0 && !fates[i].Expired {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(1, max(-1, fates[a].Start-fates[b].Start))) })
	free := make([]int64, total) // when a row is free
	for _, i := range order[:min(len(order), maxGantt)] {
		j, f := &l.Jobs[i], &fates[i]
		need := int(max(1, j.CPUMilli/unit))
		label := fmt.Sprintf("job %d, tenant %s: %d processors for %.0f s, waited %.0f s", i+1, j.Tenant,
			j.CPUMilli/1000, inS(j.Run), inS(f.Start-f.Ready))
		end := total
		if int(f.Worker)+1 < len(first) {
			end = first[f.Worker+1]
		}
		for row := first[f.Worker]; row < end && need > 0; row++ {
			if free[row] > f.Start {
				continue
			}
			free[row] = f.End
			need--
			if n := len(bars); n > 0 && bars[n-1].label == label && bars[n-1].row+bars[n-1].rows == row {
				bars[n-1].rows++
				continue
			}
			bars = append(bars, bar{from: inHours(f.Start - begin), to: inHours(f.End - begin), row: row, rows: 1,
				of: total, label: label})
		}
		hours = max(hours, inHours(f.End-begin))
	}
	return bars, hours
}

//go:embed report.html
var reportPage string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"fixed":   func(decimals int, x float64) string { return fmt.Sprintf("%.*f", decimals, x) },
	"percent": func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) },
}).Parse(reportPage))

// reportData is the data of the page.
type reportData struct {
	Title   string
	Notes   []string
	Results []Result
	Legend  []legend
	Charts  []chart
	Gantts  []ganttChart
	Fair    []fairRow
}

type legend struct{ Name, Colour string }

type chart struct {
	Title, Unit, Right string
	// Levels and Times are lines of the grid, with their labels.
	Levels, Times []gridLine
	Lines         []chartLine
}

type gridLine struct {
	At, Text float64 // Text is the label's position, slightly above or next to the line
	Label    string
}

type chartLine struct{ Name, Colour, Path string }

type ganttChart struct {
	Name, Right string
	Bars        []ganttBar
	Height      float64
}

type ganttBar struct {
	X, Y, W, H    float64
	Colour, Label string
}

// fairRow is a tenant under all policies.
type fairRow struct {
	Tenant string
	Bars   []fairBar
}

type fairBar struct {
	Colour string
	Width  float64 // of 100
	Text   string
}

// Write writes the page. Notes are printed above the figures.
func (r *Report) Write(w io.Writer, results []Result, notes []string) error {
	d := reportData{Title: r.title, Notes: notes, Results: results}
	hours, first := 0.0, 0.0 // of the longest life, and of the runs that are drawn
	for i := range r.pictures {
		first = max(first, r.pictures[i].ganttHours)
		d.Legend = append(d.Legend, legend{r.pictures[i].name, colourOf(i)})
		hours = max(hours, r.pictures[i].hours)
	}
	d.Charts = []chart{
		r.chart("Wait by the time of submission", "h", hours, func(p *picture) []float64 { return p.waits }),
		r.chart("Jobs that wait", "jobs", hours, func(p *picture) []float64 { return p.queue }),
	}
	for i := range r.pictures {
		d.Gantts = append(d.Gantts, r.pictures[i].ganttChart(first))
	}
	d.Fair = fairness(results)
	return reportTemplate.Execute(w, d)
}

func colourOf(i int) string { return colours[i%len(colours)] }

// chart draws a line for each policy, over the time of the longest life.
func (r *Report) chart(title, unit string, hours float64, of func(*picture) []float64) chart {
	top := 0.0
	for i := range r.pictures {
		for _, y := range of(&r.pictures[i]) {
			if y > top { // false for NaN
				top = y
			}
		}
	}
	c := chart{Title: title, Unit: unit, Right: fmt.Sprintf("%.4g h", hours)}
	if top == 0 {
		top = 1
	}
	for step, y := gridStep(top), gridStep(top); y <= top; y += step {
		at := round(picHeight - y/top*picHeight)
		c.Levels = append(c.Levels, gridLine{at, max(at-4, 12), fmt.Sprintf("%.4g %s", y, unit)})
	}
	for step, x := gridStep(hours), gridStep(hours); hours > 0 && x < hours*.95; x += step {
		at := round(x / hours * picWidth)
		c.Times = append(c.Times, gridLine{at, at + 4, fmt.Sprintf("%.4g h", x)})
	}
	for i := range r.pictures {
		p := &r.pictures[i]
		var path strings.Builder
		verb := "M"
		for b, y := range of(p) {
			if math.IsNaN(y) {
				continue
			}
			x := (float64(b) + 0.5) / bins * p.hours / max(hours, 1e-9) * picWidth
			fmt.Fprintf(&path, "%s%.1f %.1f", verb, x, picHeight-y/top*picHeight)
			verb = "L"
		}
		c.Lines = append(c.Lines, chartLine{p.name, colourOf(i), path.String()})
	}
	return c
}

// gridStep returns 1, 2 or 5 times a power of ten, the least of which at most five make a length.
func gridStep(length float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(max(length, 1e-9)))-1)
	for _, times := range []float64{2, 5, 10} {
		if length > 5*step*times {
			continue
		}
		return step * times
	}
	return step * 20
}

// ganttChart draws the runs of the first hours.
func (p *picture) ganttChart(hours float64) ganttChart {
	g := ganttChart{Name: p.name, Right: fmt.Sprintf("%.4g h", hours), Height: picHeight}
	for i := range p.gantt {
		b := &p.gantt[i]
		row := picHeight / float64(b.of)
		g.Bars = append(g.Bars, ganttBar{X: round(b.from / hours * picWidth), Y: round(float64(b.row) * row),
			W: round(max(0.5, (b.to-b.from)/hours*picWidth)), H: round(float64(b.rows) * row), Colour: colourOf(i),
			Label: b.label})
	}
	return g
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// fairness returns the tenants with the most processor time.
func fairness(results []Result) (rows []fairRow) {
	if len(results) == 0 {
		return nil
	}
	top := 1.0
	for i := range results {
		for _, g := range results[i].Tenants {
			top = max(top, g.BoundedSlowdown)
		}
	}
	for _, t := range results[0].Tenants[:min(maxFair, len(results[0].Tenants))] {
		row := fairRow{Tenant: t.Name}
		for i := range results {
			at := slices.IndexFunc(results[i].Tenants, func(g Group) bool { return g.Name == t.Name })
			if at < 0 {
				continue
			}
			g := &results[i].Tenants[at]
			row.Bars = append(row.Bars, fairBar{colourOf(i),
				round(100 * math.Log1p(g.BoundedSlowdown) / math.Log1p(top)),
				fmt.Sprintf("%.2f, %d jobs, waits %.0f s on average", g.BoundedSlowdown, g.Jobs, g.WaitMeanS)})
		}
		rows = append(rows, row)
	}
	return rows
}
