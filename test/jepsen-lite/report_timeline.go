package main

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// The drawing's measures, in its own units.
const (
	drawWidth  = 1160.0
	drawLeft   = 60.0
	laneHeight = 18.0
	curveTall  = 90.0
	bandHeight = 14.0
)

var stateColours = map[string]string{isUp: "#8fd3a7", isPaused: "#ffc53d", isDown: "#e5484d", isGone: "#c1c8cd"}

// drawing is an SVG on its way.
type drawing struct {
	strings.Builder
	h   *History
	end float64
	y   float64
}

// drawTimeline draws the whole run.
func drawTimeline(h *History, verdict *Verdict) template.HTML {
	d := &drawing{h: h, end: max(float64(h.End), 1), y: 24}
	d.faults()
	top := d.y
	d.lanes()
	d.leaders(top)
	d.throughput()
	for _, a := range verdict.Anomalies {
		if a.At > 0 {
			d.line(d.x(a.At), 16, d.x(a.At), d.y, "#c62a2f", 1.5)
		}
	}
	d.line(d.x(h.FaultsEnd), 0, d.x(h.FaultsEnd), d.y, "#3a5bc7", 1)
	d.text(d.x(h.FaultsEnd)+3, 10, "healed", "#3a5bc7")
	d.axis()
	return template.HTML(fmt.Sprintf( // its texts are escaped one by one
		`<svg viewBox="0 0 %.0f %.0f" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="10">%s</svg>`,
		drawWidth, d.y+20, d.String()))
}

func (d *drawing) x(at int64) float64 {
	return drawLeft + (drawWidth-drawLeft-10)*min(1, float64(at)/d.end)
}

func (d *drawing) rect(x, y, w, tall float64, colour, title string) {
	fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>`, x, y,
		max(w, 0.7), tall, colour, html.EscapeString(title))
}

func (d *drawing) line(x1, y1, x2, y2 float64, colour string, width float64) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`, x1, y1, x2, y2,
		colour, width)
}

func (d *drawing) text(x, y float64, s, colour string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`, x, y, colour, html.EscapeString(s))
}

// faults draws a band for each fault, in rows of their lanes.
func (d *drawing) faults() {
	most := 0
	for _, f := range d.h.Faults {
		most = max(most, f.Lane)
		y := d.y + float64(f.Lane)*bandHeight
		title := fmt.Sprintf("%s %s %s %s to %s", f.Nemesis, strings.Join(f.Targets, " "), f.Note, seconds(f.From),
			seconds(f.To))
		d.rect(d.x(f.From), y, d.x(f.To)-d.x(f.From), bandHeight-2, colourOf(f.Nemesis), title)
		if d.x(f.To)-d.x(f.From) > 40 {
			d.text(d.x(f.From)+2, y+9, f.Nemesis, "#fff")
		}
	}
	d.text(0, d.y+10, "faults", "#1c2024")
	d.y += float64(most+1)*bandHeight + 6
}

// colourOf gives each nemesis a hue of its own.
func colourOf(name string) string {
	at := slices.IndexFunc(nemeses, func(n nemesis) bool { return n.name == name })
	return fmt.Sprintf("hsl(%d,55%%,45%%)", (at*137+200)%360)
}

// lanes draws each process's states.
func (d *drawing) lanes() {
	v := newView(&History{Changes: d.h.Changes})
	var names []string
	for name := range v.lives {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a, b)) })
	for _, name := range names {
		d.text(0, d.y+11, name, "#1c2024")
		changes := v.lives[name]
		for i, c := range changes {
			to := d.h.End
			if i+1 < len(changes) {
				to = changes[i+1].At
			}
			d.rect(d.x(c.At), d.y, d.x(to)-d.x(c.At), laneHeight-4, stateColours[c.State],
				fmt.Sprintf("%s %s from %s to %s", name, c.State, seconds(c.At), seconds(to)))
		}
		for _, c := range d.h.Cuts {
			if c.From == name || c.To == name {
				d.line(d.x(c.Begin), d.y+laneHeight-3, d.x(c.End), d.y+laneHeight-3, "#8e4ec6", 2)
			}
		}
		d.y += laneHeight
	}
}

// leaders marks who led, on the nodes' own lanes.
func (d *drawing) leaders(top float64) {
	v := newView(&History{Changes: d.h.Changes})
	var names []string
	for name := range v.lives {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a, b)) })
	for _, s := range d.h.Samples {
		if at := slices.Index(names, s.Leader); at >= 0 {
			fmt.Fprintf(d, `<circle cx="%.1f" cy="%.1f" r="2" fill="#0d2d1c"><title>%s leads term %d</title></circle>`,
				d.x(s.At), top+float64(at)*laneHeight+7, s.Leader, s.Term)
		}
	}
}

// throughput draws operations a second.
func (d *drawing) throughput() {
	buckets := int(d.end/1e9) + 1
	ok, unknown := make([]float64, buckets), make([]float64, buckets)
	for i := range d.h.Ops {
		op := &d.h.Ops[i]
		at := op.Return
		if op.Outcome == Unknown {
			at = op.Invoke
		}
		if b := int(at / 1e9); b >= 0 && b < buckets {
			if op.Outcome == Unknown {
				unknown[b]++
			} else {
				ok[b]++
			}
		}
	}
	most := max(slices.Max(ok), slices.Max(unknown), 1)
	d.y += 10
	d.text(0, d.y+10, fmt.Sprintf("%.0f/s", most), "#687076")
	for _, c := range []struct {
		of     []float64
		colour string
	}{{ok, "#18794e"}, {unknown, "#c62a2f"}} {
		var points []string
		for i, n := range c.of {
			points = append(points, fmt.Sprintf("%.1f,%.1f", d.x(int64(i)*1e9), d.y+curveTall*(1-n/most)))
		}
		fmt.Fprintf(d, `<polyline points="%s" fill="none" stroke="%s"/>`, strings.Join(points, " "), c.colour)
	}
	d.y += curveTall
}

func (d *drawing) axis() {
	step := math.Pow(10, math.Floor(math.Log10(d.end/1e9)))
	if d.end/1e9/step < 4 {
		step /= 4
	}
	for at := 0.0; at <= d.end/1e9; at += step {
		x := d.x(int64(at * 1e9))
		d.line(x, d.y, x, d.y+4, "#687076", 1)
		d.text(x-4, d.y+14, fmt.Sprintf("%.0f s", at), "#687076")
	}
}
