package eta_test

import (
	"fmt"
	"math"
	"strings"
)

// measured is a line of the table and of the picture of coverage.
type measured struct {
	load, policy string
	// shown means that nothing was tuned on the load.
	shown bool
	figures
}

// within returns the share of forecast jobs that started within their interval, and its confidence interval if jobs
// were independent: 95 of 100 such intervals contain the true share (Wilson).
func (f *figures) within() (share, low, high float64) {
	const z = 1.96
	n := float64(f.asked)
	share = float64(f.in) / n
	middle, half := (share+z*z/(2*n))/(1+z*z/n), z*math.Sqrt(share*(1-share)/n+z*z/(4*n*n))/(1+z*z/n)
	return share, middle - half, middle + half
}

// table returns the lines in Markdown.
func table(lines []measured) string {
	var b strings.Builder
	b.WriteString(
		"| load | policy | asked | within | before | after | interval | expected ÷ wait, 10 % to 90 % |\n|---|---|---|---|---|---|---|---|\n")
	for i := range lines {
		l := &lines[i]
		n := float64(l.asked)
		name := l.load
		if !l.shown {
			name += " †"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %.3f | %.3f | %.3f | %.2f | %.2f to %.2f |\n", name, l.policy, l.asked,
			float64(l.in)/n, float64(l.early)/n, float64(l.late)/n,
			l.width[len(l.width)/2], l.off[len(l.off)/10], l.off[len(l.off)*9/10])
	}
	return b.String()
}

// picture draws the lines: where the share is, next to the required band.
func picture(lines []measured) string {
	const left, width, row, top = 250.0, 470.0, 22.0, 46.0
	const from, to = 0.70, 1.0
	at := func(share float64) float64 { return left + width*(min(max(share, from), to)-from)/(to-from) }
	height := top + row*float64(len(lines)) + 14
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n",
		left+width+30, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="12" y="20" font-size="14" fill="#222">Share of jobs that started within the forecast interval</text>`+"\n")
	fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#dcefe0"/>`+"\n", at(.88), top-6,
		at(.97)-at(.88), height-top-4)
	for s := from; s < to+.001; s += .05 {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ccc"/><text x="%.1f" y="%.1f" text-anchor="middle" fill="#555">%.2f</text>`+"\n",
			at(s), at(s), top-6, height-10, at(s), top-10, s)
	}
	for i := range lines {
		l := &lines[i]
		y := top + row*float64(i) + row/2
		share, low, high := l.within()
		colour := "#1f6fb4"
		if !l.shown {
			colour = "#9a7d0a"
		}
		fmt.Fprintf(&b, `<text x="12" y="%.1f" fill="#222">%s, %s</text><line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/><circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n",
			y+4, l.load, l.policy, at(low), at(high), y, y, colour, at(share), y, colour)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
