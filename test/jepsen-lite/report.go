package main

import (
	"cmp"
	"encoding/json"
	"html/template"
	"io"
	"os"
	"slices"
)

// page is what the report shows.
type page struct {
	History   *History
	Verdict   *Verdict
	Figures   []figure
	Timeline  template.HTML
	Promises  []promise
	FaultRows []Fault
	Pairs     []figure
}

type figure struct{ Name, Value string }

type promise struct {
	Name, Text string
	Broken     int
}

// writeReport writes one page that needs nothing else.
func writeReport(path string, h *History, verdict *Verdict) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := renderReport(f, h, verdict); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func renderReport(to io.Writer, h *History, verdict *Verdict) error {
	p := page{History: h, Verdict: verdict, Timeline: drawTimeline(h, verdict), FaultRows: slices.Clone(h.Faults)}
	for name, value := range verdict.Figures {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		p.Figures = append(p.Figures, figure{name, string(text)})
	}
	for name, count := range pairs(h.Faults) {
		text, _ := json.Marshal(count) // a number always can be
		p.Pairs = append(p.Pairs, figure{name, string(text)})
	}
	byName := func(a, b figure) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(p.Figures, byName)
	slices.SortFunc(p.Pairs, byName)
	slices.SortFunc(p.FaultRows, func(a, b Fault) int { return cmp.Compare(a.From, b.From) })
	for _, c := range checkers {
		broken := 0
		for _, a := range verdict.Anomalies {
			if a.Checker == c.name {
				broken++
			}
		}
		p.Promises = append(p.Promises, promise{c.name, c.promise, broken})
	}
	return reportTemplate.Execute(to, p)
}

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{"at": seconds}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>rota: seed {{.Verdict.Seed}}</title><style>
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1200px;padding:0 1em;color:#1c2024}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}code{background:#f1f3f5;padding:.1em .3em;border-radius:3px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2em .6em;border-bottom:1px solid #e4e7eb;
vertical-align:top}.good{color:#18794e}.bad{color:#c62a2f;font-weight:600}svg{width:100%;height:auto}
.small{color:#687076;font-size:.9em}pre{white-space:pre-wrap;background:#f8f9fa;padding:1em;font-size:.85em}
</style></head><body>
<h1>Seed {{.Verdict.Seed}}: {{if .Verdict.Violations}}<span class="bad">{{.Verdict.Violations}} violations</span>
{{else}}<span class="good">no violation</span>{{end}}</h1>
<p>{{.Verdict.Operations}} operations, {{.Verdict.Faults}} faults, {{.History.Nodes}} nodes, network
{{.History.Network}}, {{.History.Date.Format "2006-01-02 15:04:05 MST"}}. Again: <code>{{.History.Command}}</code>.
Judge the same history again: <code>go run ./test/jepsen-lite --recheck {{.Verdict.History}}</code>.</p>
{{with .Verdict.Data}}<p class="bad">Data directories and logs are kept in {{.}}.</p>{{end}}
{{range .Verdict.Undecided}}<p class="small">Not decided: {{.}}.</p>{{end}}
<h2>Timeline</h2>{{.Timeline}}
<p class="small">Bars: green up, amber paused, red down, grey gone. Dots: the node that led. Bands: faults.
Curves: operations a second, ok above, unknown below in red.</p>
{{if .Verdict.Anomalies}}<h2>Anomalies</h2><table><tr><th>when</th><th>promise</th><th>what</th><th>ids</th></tr>
{{range .Verdict.Anomalies}}<tr><td>{{if .At}}{{at .At}}{{end}}</td><td>{{.Checker}}</td><td>{{.Text}}</td><td>
{{range .IDs}}<code>{{.}}</code> {{end}}</td></tr>{{end}}</table>{{end}}
<h2>Promises</h2><table>{{range .Promises}}<tr><td>{{.Name}}</td><td>{{.Text}}</td><td>{{if .Broken}}<span class="bad">
broken {{.Broken}}×</span>{{else}}<span class="good">kept</span>{{end}}</td></tr>{{end}}</table>
<h2>Figures</h2><table>{{range .Figures}}<tr><td>{{.Name}}</td><td>{{.Value}}</td></tr>{{end}}</table>
<h2>Faults</h2><table><tr><th>from</th><th>to</th><th>fault</th><th>struck</th><th></th></tr>
{{range .FaultRows}}<tr><td>{{at .From}}</td><td>{{at .To}}</td><td>{{.Nemesis}}</td><td>
{{range .Targets}}{{.}} {{end}}</td><td>{{.Note}} {{.Error}}</td></tr>{{end}}</table>
<h2>Pairs of faults that overlapped</h2><table>{{range .Pairs}}<tr><td>{{.Name}}</td><td>{{.Value}}</td></tr>{{end}}
</table>
{{if .History.Notes}}<h2>Notes</h2><pre>{{range .History.Notes}}{{.}}
{{end}}</pre>{{end}}
</body></html>
`))
