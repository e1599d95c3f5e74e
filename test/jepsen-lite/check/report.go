package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// page holds the contents of the report.
type page struct {
	History   *History
	Verdict   *Verdict
	Live      string
	Figures   []figure
	Timeline  template.HTML
	Promises  []promise
	FaultRows []Fault
	// FaultsLeft is the number of faults without a row.
	FaultsLeft int
	Kinds      []string
	Matrix     []matrixRow
	Met, All   int
}

type figure struct{ Name, Value string }

type promise struct {
	Name, Text, Sort string
	Broken           int
}

// matrixRow is one nemesis, how often it struck, and how often together with each of those up to itself.
type matrixRow struct {
	Name  string
	Count int
	Cells []int
}

// maxFaultRows bounds the table of faults.
const maxFaultRows = 1_500

// WriteReport writes one self-contained page, and next to it the drawings that it links.
func WriteReport(path string, h *History, verdict *Verdict) error {
	page := picture{filepath.Base(path), func(to io.Writer) error { return renderReport(to, h, verdict) }}
	for _, p := range append([]picture{page}, verdict.pictures...) {
		f, err := os.Create(filepath.Join(filepath.Dir(path), p.name))
		if err != nil {
			return err
		}
		if err := errors.Join(p.write(f), f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", p.name, err)
		}
	}
	return nil
}

func renderReport(to io.Writer, h *History, verdict *Verdict) error {
	p := page{History: h, Verdict: verdict, Live: verdict.Liveness.times(), Timeline: drawTimeline(h, verdict),
		FaultRows: slices.Clone(h.Faults), Kinds: kinds(h)}
	for name, value := range verdict.Figures {
		if name == "fault_pairs_struck" || name == "faults_by_kind" { // the matrix shows them
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		p.Figures = append(p.Figures, figure{name, strings.NewReplacer(`"`, "", ",", ", ", ":",
			": ").Replace(string(text))})
	}
	slices.SortFunc(p.Figures, func(a, b figure) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.FaultRows, func(a, b Fault) int { return cmp.Compare(a.From, b.From) })
	if left := len(p.FaultRows) - maxFaultRows; left > 0 {
		p.FaultRows, p.FaultsLeft = p.FaultRows[:maxFaultRows], left
	}
	met := pairs(h.Faults)
	p.Matrix = matrixOf(h, p.Kinds, met)
	p.Met, p.All = len(met), len(p.Kinds)*(len(p.Kinds)+1)/2
	for _, c := range checkers {
		kept := promise{Name: c.name, Text: c.promise, Sort: "safety"}
		if slices.Contains(livenessCheckers, c.name) {
			kept.Sort = "liveness"
		}
		for _, a := range verdict.Anomalies {
			if a.Checker == c.name {
				kept.Broken++
			}
		}
		p.Promises = append(p.Promises, kept)
	}
	return reportTemplate.Execute(to, p)
}

func matrixOf(h *History, kinds []string, met map[Pair]int) (rows []matrixRow) {
	count := make(map[string]int)
	for i := range h.Faults {
		count[h.Faults[i].Nemesis]++
	}
	for i, a := range kinds {
		row := matrixRow{Name: a, Count: count[a]}
		for _, b := range kinds[:i+1] {
			row.Cells = append(row.Cells, met[PairOf(a, b)])
		}
		rows = append(rows, row)
	}
	return rows
}

// shade returns the colour class of a cell of the matrix by its count.
func shade(n int) string { return [...]string{"none", "few", "some", "many"}[min(n, 3)] }
