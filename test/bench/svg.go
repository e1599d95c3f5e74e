package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// chart is a picture of curves over an axis of powers of ten.
type chart struct {
	title, x, y string
	// logY has powers of ten upwards too; otherwise the axis begins at zero. linearX has an axis of time, from zero to
	// the last point.
	logY, linearX bool
	curves        []curve
}

type curve struct {
	name   string
	points [][2]float64
}

// The size of a picture and of the margins around the curves, in pixels.
const (
	chartWide, chartHigh                      = 640, 360
	chartLeft, chartRight, chartTop, chartLow = 76, 20, 64, 52
)

// chartColors are distinct for most eyes, on white and when printed.
var chartColors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"}

// axis maps values to places between two pixels.
type axis struct {
	from, to, least, most float64
	log                   bool
	ticks                 []float64
}

func newAxis(values []float64, log bool, from, to float64) axis {
	a := axis{from: from, to: to, log: log}
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 || !log {
			least, most = min(least, v), max(most, v)
		}
	}
	if math.IsInf(least, 0) {
		least, most = 1, 1
	}
	if log {
		a.least, a.most = math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
		if a.least == a.most {
			a.most++
		}
		for e := a.least; e <= a.most; e++ {
			a.ticks = append(a.ticks, math.Pow(10, e))
		}
		return a
	}
	step := niceStep(most)
	a.most = max(math.Ceil(most/step), 1) * step
	for v := 0.0; v <= a.most+step/2; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// niceStep divides 0 to most into four to ten steps of 1, 2 or 5 times a power of ten.
func niceStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, f := range []float64{5, 2} {
		if most/(f*power) >= 4 {
			return f * power
		}
	}
	return power
}

func (a *axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(max(v, math.Pow(10, a.least)))
	}
	return a.from + (v-a.least)/(a.most-a.least)*(a.to-a.from)
}

// amount writes a number briefly: 1k, 20M, 0.5.
func amount(v float64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.of {
			return fmt.Sprintf("%g%s", math.Round(v/unit.of*100)/100, unit.name)
		}
	}
	return fmt.Sprintf("%g", math.Round(v*1000)/1000)
}

// svg draws the chart.
func (c *chart) svg() string {
	var xs, ys []float64
	for _, one := range c.curves {
		for _, p := range one.points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	x := newAxis(xs, !c.linearX, chartLeft, chartWide-chartRight)
	y := newAxis(ys, c.logY, chartHigh-chartLow, chartTop)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		chartWide, chartHigh, chartWide, chartHigh)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWide, chartHigh)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", chartLeft, escape(c.title))
	for _, v := range x.ticks {
		at := x.at(v)
		stroke(&b, at, chartTop, at, chartHigh-chartLow, "#ddd")
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, chartHigh-chartLow+18,
			amount(v))
	}
	for _, v := range y.ticks {
		at := y.at(v)
		stroke(&b, chartLeft, at, chartWide-chartRight, at, "#ddd")
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", chartLeft-8, at+4, amount(v))
	}
	stroke(&b, chartLeft, chartHigh-chartLow, chartWide-chartRight, chartHigh-chartLow, "#444")
	stroke(&b, chartLeft, chartTop, chartLeft, chartHigh-chartLow, "#444")
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (chartLeft+chartWide-chartRight)/2,
		chartHigh-12,
		escape(c.x))
	fmt.Fprintf(&b, `<text x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %d)">%s</text>`+"\n",
		(chartTop+chartHigh-chartLow)/2, (chartTop+chartHigh-chartLow)/2, escape(c.y))
	for i, one := range c.curves {
		c.draw(&b, i, one, &x, &y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (c *chart) draw(b *strings.Builder, i int, one curve, x, y *axis) {
	color := chartColors[i%len(chartColors)]
	var places []string
	for _, p := range one.points {
		places = append(places, fmt.Sprintf("%.1f,%.1f", x.at(p[0]), y.at(p[1])))
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", color,
		strings.Join(places, " "))
	for _, p := range one.points {
		if len(one.points) <= 20 { // more would hide the curve
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s, %s: %s</title></circle>`+"\n",
				x.at(p[0]), y.at(p[1]), color, escape(one.name), amount(p[0]), amount(p[1]))
		}
	}
	at := chartLeft + 140*i
	fmt.Fprintf(b, `<rect x="%d" y="38" width="12" height="12" fill="%s"/><text x="%d" y="48">%s</text>`+"\n", at,
		color, at+18,
		escape(one.name))
}

func stroke(b *strings.Builder, x1, y1, x2, y2 float64, color string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, color)
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}

// save writes a chart into a folder.
func (c *chart) save(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".svg"), []byte(c.svg()), 0o644)
}
