package check

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// outcomes are drawn in this order, from the top.
var outcomes = [...]struct {
	is     Outcome
	colour string
}{{OK, "#18794e"}, {Refused, "#c62a2f"}, {Unknown, "#687076"}}

// tallies counts a process's operations by stretch of time and outcome.
type tallies map[int]*[len(outcomes)]int

// tally counts the calls to nodes, and the starts and reports of workers.
func (d *drawing) tally() map[string]tallies {
	all := make(map[string]tallies)
	for i := range d.h.Ops {
		op := &d.h.Ops[i]
		name := op.Node
		if op.Func == OpStart || op.Func == OpReport && name == "" {
			name = handOf(op.Process)
		}
		at := slices.IndexFunc(outcomes[:], func(o struct {
			is     Outcome
			colour string
		}) bool {
			return o.is == op.Outcome
		})
		if name == "" || at < 0 || op.Invoke <= 0 { // a report of a lease that the library gave back has no beginning
			continue
		}
		of := all[name]
		if of == nil {
			of = make(tallies)
			all[name] = of
		}
		tick := int((d.x(op.Invoke) - drawLeft) / tickWide)
		if of[tick] == nil {
			of[tick] = new([len(outcomes)]int)
		}
		of[tick][at]++
	}
	return all
}

// shades are how strongly a tick is drawn, by the number of operations that it represents.
var shades = [...]struct {
	most    int
	opacity float64
}{{2, 0.4}, {20, 0.7}, {1 << 60, 1}}

// ticks draws a process's operations below its state: one path for each outcome and
// shade.
func (d *drawing) ticks(of tallies) {
	var order []int
	for tick := range of {
		order = append(order, tick)
	}
	slices.Sort(order)
	for row, o := range outcomes {
		y := d.y + stateTall + 1.5 + 3.5*float64(row)
		least := 1
		for _, s := range shades {
			var path strings.Builder
			for _, tick := range order {
				if n := of[tick][row]; n >= least && n <= s.most {
					fmt.Fprintf(&path, "M%.0f %.1fh%.0f", drawLeft+float64(tick)*tickWide, y+1.5, tickWide)
				}
			}
			if path.Len() > 0 {
				fmt.Fprintf(d, `<path d="%s" stroke="%s" stroke-width="3" opacity="%.1f"/>`, path.String(), o.colour,
					s.opacity)
			}
			least = s.most + 1
		}
	}
}

// curveTall is a curve's height, bins the maximum number of its points.
const (
	curveTall = 70.0
	bins      = 560
)

// curve is one line of a chart; points that are not known are −1.
type curve struct {
	name, colour string
	points       []float64
}

// curves draws the figures of each stretch of time, in separate charts.
func (d *drawing) curves() {
	n := max(1, min(bins, int(d.end/1e9)))
	wide := d.end / float64(n)
	bin := func(at int64) int { return min(n-1, max(0, int(float64(at)/wide))) }
	counts := [len(outcomes)][]float64{}
	for i := range counts {
		counts[i] = make([]float64, n)
	}
	submits, reads := make([][]int64, n), make([][]int64, n)
	for i := range d.h.Ops {
		op := &d.h.Ops[i]
		for k, o := range outcomes {
			if o.is == op.Outcome && op.Func != OpEnd {
				counts[k][bin(op.Invoke)] += 1e9 / wide
			}
		}
		switch {
		case op.Outcome != OK:
		case op.Func == OpSubmit:
			submits[bin(op.Invoke)] = append(submits[bin(op.Invoke)], op.Return-op.Invoke)
		case op.Func == OpGet:
			reads[bin(op.Invoke)] = append(reads[bin(op.Invoke)], op.Return-op.Invoke)
		}
	}
	d.chart("operations/s", "", curve{"ok", outcomes[0].colour, counts[0]},
		curve{"refused", outcomes[1].colour, counts[1]}, curve{"unknown", outcomes[2].colour, counts[2]})
	d.chart("p99", " ms", curve{"submit", "#3a5bc7", percentile99(submits)},
		curve{"get", "#ad7f58", percentile99(reads)})
	d.chart("clock rate", "", curve{"cluster time by host time", "#8e4ec6", clockRates(d.h.Samples, n, bin)})
}

// percentile99 is each stretch's, in milliseconds.
func percentile99(all [][]int64) []float64 {
	points := make([]float64, len(all))
	for i, of := range all {
		if points[i] = -1; len(of) > 0 {
			slices.Sort(of)
			points[i] = float64(of[len(of)*99/100]) / 1e6
		}
	}
	return points
}

// clockRates returns the rate of the cluster's clock by the host's: between the first reading of a stretch and that of
// the next.
func clockRates(samples []Sample, n int, bin func(int64) int) []float64 {
	points := make([]float64, n)
	for i := range points {
		points[i] = -1
	}
	a := (*Sample)(nil)
	for i := range samples {
		b := &samples[i]
		if a != nil && (bin(b.At) == bin(a.At) || b.At <= a.At) {
			continue
		}
		if a != nil {
			points[bin(a.At)] = min(3, max(0, float64(b.Clock-a.Clock)*1e6/float64(b.At-a.At)))
		}
		a = b
	}
	return points
}

// chart draws curves over a scale from 0 to the highest of them.
func (d *drawing) chart(name, unit string, curves ...curve) {
	most := 1.0
	for _, c := range curves {
		most = max(most, slices.Max(c.points))
	}
	d.y += 22
	d.text(drawLeft, d.y-5, name+":", "#1c2024")
	at := drawLeft + float64(len(name)+2)*letterWide
	for _, c := range curves {
		fmt.Fprintf(d, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`, at, d.y-5, c.colour, html.EscapeString(c.name))
		at += float64(len(c.name)+2) * letterWide
	}
	for _, part := range []float64{1, 0.5, 0} {
		y := d.y + curveTall*(1-part)
		d.line(drawLeft, y, drawWidth-drawRight, y, "#e4e7eb", 0.7)
		fmt.Fprintf(d, `<text x="%.1f" y="%.1f" fill="#687076" text-anchor="end">%s%s</text>`, drawLeft-4, y+3,
			scaleText(most*part), unit)
	}
	for _, c := range curves {
		var path strings.Builder
		step, gap := (drawWidth-drawLeft-drawRight)/float64(len(c.points)), true
		for i, p := range c.points {
			if p < 0 {
				gap = true
				continue
			}
			verb := "L"
			if gap {
				verb = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", verb, drawLeft+step*(float64(i)+0.5), d.y+curveTall*(1-p/most))
			if gap {
				path.WriteString("h.5") // a single point must be visible, too
			}
			gap = false
		}
		fmt.Fprintf(d, `<path d="%s" fill="none" stroke="%s" stroke-width="1.2"/>`, path.String(), c.colour)
	}
	d.y += curveTall
}

func scaleText(x float64) string {
	if x >= 10 || x == 0 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}
