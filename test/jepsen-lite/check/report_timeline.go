package check

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
	drawWidth  = 1200.0
	drawLeft   = 64.0
	drawRight  = 10.0
	laneHeight = 24.0
	stateTall  = 9.0
	bandHeight = 14.0
	// tickWide is the width over which operations are counted.
	tickWide = 2.0
)

var stateColours = map[string]string{IsUp: "#bfe3cc", IsPaused: "#ffc53d", IsDown: "#e5484d", IsGone: "#c1c8cd"}

// drawing is an SVG under construction.
type drawing struct {
	strings.Builder
	h   *History
	end float64
	y   float64
}

// drawTimeline draws the whole run. Its size does not grow with the operations: they
// are counted by stretches of time.
func drawTimeline(h *History, verdict *Verdict) template.HTML {
	d := &drawing{h: h, end: max(float64(h.End), 1), y: 26}
	d.faults()
	d.lanes(newView(&History{Changes: h.Changes}))
	d.curves()
	d.marks(verdict)
	d.line(d.x(h.FaultsEnd), 14, d.x(h.FaultsEnd), d.y, "#3a5bc7", 1)
	fmt.Fprintf(d, `<text x="%.1f" y="10" fill="#3a5bc7" text-anchor="middle">healed</text>`,
		min(d.x(h.FaultsEnd), drawWidth-4*letterWide))
	d.axis()
	return template.HTML(fmt.Sprintf( // its texts are escaped one by one
		`<svg viewBox="0 0 %.0f %.0f" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="10">%s</svg>`,
		drawWidth, d.y+20, d.String()))
}

func (d *drawing) x(at int64) float64 {
	return drawLeft + (drawWidth-drawLeft-drawRight)*min(1, float64(at)/d.end)
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

// letterWide is the maximum width of a letter, for text that must fit.
const letterWide = 5.6

// faults draws a band for each fault, in rows of their lanes.
func (d *drawing) faults() {
	most, all := 0, kinds(d.h)
	for _, f := range d.h.Faults {
		most = max(most, f.Lane)
		y := d.y + float64(f.Lane)*bandHeight
		title := fmt.Sprintf("%s %s %s %s to %s", f.Nemesis, strings.Join(f.Targets, " "), f.Note, seconds(f.From),
			seconds(f.To))
		wide := d.x(f.To) - d.x(f.From)
		d.rect(d.x(f.From), y, wide, bandHeight-2, colourOf(f.Nemesis, all), title)
		name := f.Nemesis[:max(0, min(len(f.Nemesis), int((wide-3)/letterWide)))]
		if len(name) == len(f.Nemesis) || len(name) >= 4 {
			d.text(d.x(f.From)+2, y+9, name, "#fff")
		}
	}
	d.text(0, d.y+10, "faults", "#1c2024")
	d.y += float64(most+1)*bandHeight + 8
}

// colourOf returns a different hue for each of the kinds.
func colourOf(name string, kinds []string) string {
	at := slices.Index(kinds, name)
	return fmt.Sprintf("hsl(%d,55%%,42%%)", (at*137+200)%360)
}

// lanes draws each process: its states, cuts and leaderships, and the calls to it.
func (d *drawing) lanes(v *view) {
	var names []string
	for name := range v.lives {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	asked := d.tally()
	for _, name := range names {
		d.text(0, d.y+9, name, "#1c2024")
		changes := v.lives[name]
		for i, c := range changes {
			to := d.h.End
			if i+1 < len(changes) {
				to = changes[i+1].At
			}
			d.rect(d.x(c.At), d.y, d.x(to)-d.x(c.At), stateTall, stateColours[c.State],
				fmt.Sprintf("%s %s from %s to %s", name, c.State, seconds(c.At), seconds(to)))
		}
		d.cuts(name)
		d.leads(name)
		d.ticks(asked[name])
		d.y += laneHeight
	}
}

// cuts marks when links of a process were cut or bad, once where several were.
func (d *drawing) cuts(name string) {
	var path strings.Builder
	until := int64(-1)
	cuts := slices.Clone(d.h.Cuts)
	for _, b := range d.h.BadLinks {
		cuts = append(cuts, Cut{b.From, b.To, b.Begin, b.End})
	}
	cuts = slices.DeleteFunc(cuts, func(c Cut) bool { return c.From != name && c.To != name })
	slices.SortFunc(cuts, func(a, b Cut) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, c := range cuts {
		if c.End <= until {
			continue
		}
		fmt.Fprintf(&path, "M%.1f %.1fH%.1f", d.x(max(c.Begin, until)), d.y+stateTall-1,
			max(d.x(c.End), d.x(c.Begin)+0.7))
		until = c.End
	}
	if path.Len() > 0 {
		fmt.Fprintf(d, `<path d="%s" stroke="#8e4ec6" stroke-width="2.5" fill="none"/>`, path.String())
	}
}

// leads draws when others saw a process lead, and in which term.
func (d *drawing) leads(name string) {
	for i := 0; i < len(d.h.Samples); {
		a := &d.h.Samples[i]
		k := i + 1
		for k < len(d.h.Samples) && d.h.Samples[k].Leader == a.Leader && d.h.Samples[k].Term == a.Term {
			k++
		}
		if a.Leader == name {
			b := &d.h.Samples[k-1]
			d.rect(d.x(a.At), d.y+2.5, d.x(b.At)-d.x(a.At), 3, "#0d2d1c",
				fmt.Sprintf("%s leads term %d from %s to %s", name, a.Term, seconds(a.At), seconds(b.At)))
			if term := fmt.Sprint(a.Term); d.x(b.At)-d.x(a.At) > float64(len(term))*letterWide {
				fmt.Fprintf(d, `<text x="%.1f" y="%.1f" font-size="7" fill="#0d2d1c">%s</text>`, d.x(a.At), d.y+1.5,
					term)
			}
		}
		i = k
	}
}

// marks draws the anomalies, each with its number.
func (d *drawing) marks(verdict *Verdict) {
	last := -100.0
	for i, a := range verdict.Anomalies {
		if a.At <= 0 || a.At >= never {
			continue
		}
		x := d.x(a.At)
		fmt.Fprintf(d, `<a href="#a%d"><line x1="%.1f" y1="22" x2="%.1f" y2="%.1f" stroke="#c62a2f" stroke-width="1.2"><title>%s</title>`+
			`</line>`, i+1, x, x, d.y, html.EscapeString(a.Checker+": "+Short(strings.ToValidUTF8(a.Text, "?"))))
		if math.Abs(x-last) > 3*letterWide {
			fmt.Fprintf(d, `<text x="%.1f" y="20" fill="#c62a2f" text-anchor="middle">%d</text>`, x, i+1)
			last = x
		}
		d.WriteString("</a>")
	}
}

// axis draws some five to twelve round times.
func (d *drawing) axis() {
	step := math.Pow(10, math.Floor(math.Log10(d.end/1e9)))
	for _, parts := range []float64{1, 2, 5} {
		if d.end/1e9/(step/parts) >= 5 {
			step /= parts
			break
		}
	}
	for at := 0.0; at <= d.end/1e9; at += step {
		x := d.x(int64(at * 1e9))
		d.line(x, d.y, x, d.y+4, "#687076", 1)
		fmt.Fprintf(d, `<text x="%.1f" y="%.1f" fill="#687076" text-anchor="middle">%g s</text>`, x, d.y+14,
			math.Round(at*10)/10)
	}
}
