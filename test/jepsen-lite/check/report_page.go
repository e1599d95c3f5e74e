package check

import (
	"html/template"
)

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"at": seconds, "shade": shade, "next": func(i int) int { return i + 1 },
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>rota: seed {{.Verdict.Seed}}</title><style>
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1240px;padding:0 1em;color:#1c2024}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}code{background:#f1f3f5;padding:.1em .3em;border-radius:3px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2em .6em;border-bottom:1px solid #e4e7eb;
vertical-align:top}.good{color:#18794e}.bad{color:#c62a2f;font-weight:600}svg{width:100%;height:auto}
.small{color:#687076;font-size:.9em}pre{white-space:pre-wrap;background:#f8f9fa;padding:1em;font-size:.85em}
td{overflow-wrap:anywhere}td:first-child{overflow-wrap:normal;white-space:nowrap}.matrix{width:auto;font-size:11px}.matrix td{padding:0;min-width:1.9em;text-align:center;border:1px solid #fff}
.matrix th{padding:0 .6em 0 0;border:0;font-weight:400;white-space:nowrap;text-align:right}.none{background:#f1f3f5;color:#c1c8cd}
.matrix th.up{writing-mode:vertical-rl;transform:rotate(180deg);padding:0;text-align:left;vertical-align:bottom}
.few{background:#d3ecdc}.some{background:#8fd3a7}.many{background:#30a46c;color:#fff}.key b{display:inline-block;width:.9em;height:.9em;
border-radius:2px;margin:0 .3em 0 1em;vertical-align:-1px}</style></head><body>
<h1>Seed {{.Verdict.Seed}}: {{if .Verdict.Violations}}<span class="bad">{{.Verdict.Violations}} violations</span>
{{else}}<span class="good">no violation</span>{{end}}</h1>
<p>{{.Verdict.Operations}} operations, {{.Verdict.Faults}} faults, {{.History.Nodes}} nodes, network
{{.History.Network}}, {{.History.Date.Format "2006-01-02 15:04:05 MST"}}{{range $k, $v := .History.Versions}}, {{$k}} {{$v}}{{end}}.
Again: <code>{{.History.Command}}</code>. Judge the same history again:
<code>go run ./test/jepsen-lite --recheck {{.Verdict.History}}</code>.</p>
{{if .Verdict.Violations}}{{with .Verdict.Data}}<p class="bad">Data directories and logs are kept in {{.}}.</p>{{end}}{{end}}
<table><tr><th>safety</th><td>{{if .Verdict.Safety.Violations}}<span class="bad">{{.Verdict.Safety.Violations}} violations</span>{{else}}
<span class="good">kept</span>{{end}}{{with .Verdict.Undecided}}; {{len .}} not decided{{end}}</td></tr>
<tr><th>liveness</th><td>{{if .Verdict.Liveness.Violations}}<span class="bad">{{.Verdict.Liveness.Violations}} violations</span>{{else}}
<span class="good">kept</span>{{end}}; after the last heal: {{.Live}}</td></tr>
{{range .Verdict.Liveness.Growth}}<tr><th>{{.Node}}</th><td>files {{index .Files 0}} → {{index .Files 1}}, goroutines
{{index .Goroutines 0}} → {{index .Goroutines 1}}, before the load and after the heal</td></tr>{{end}}</table>
{{range .Verdict.Undecided}}<p class="small">Not decided: {{.}}.</p>{{end}}
<h2>Timeline</h2>{{.Timeline}}
<p class="small key">Processes: <b style="background:#bfe3cc"></b>up <b style="background:#ffc53d"></b>paused
<b style="background:#e5484d"></b>down <b style="background:#c1c8cd"></b>gone <b style="background:#8e4ec6"></b>a link of it cut
<b style="background:#0d2d1c"></b>leads (its term next to it). Under each, what it was asked or did:
<b style="background:#18794e"></b>ok <b style="background:#c62a2f"></b>refused <b style="background:#687076"></b>unknown, the darker the
more. Red lines: anomalies, by their numbers below.</p>
{{if .Verdict.Anomalies}}<h2>Anomalies</h2><table><tr><th>#</th><th>when</th><th>promise</th><th>what</th><th>ids</th></tr>
{{range $i, $a := .Verdict.Anomalies}}<tr id="a{{next $i}}"><td>{{next $i}}</td><td>{{if .At}}{{at .At}}{{end}}</td><td>{{.Checker}}</td>
<td>{{.Text}}</td><td>{{range .IDs}}<code>{{.}}</code> {{end}}{{with .Link}}<a href="{{.}}">drawn</a>{{end}}</td></tr>{{end}}</table>{{end}}
<h2>Promises</h2><table>{{range .Promises}}<tr><td>{{.Name}}</td><td>{{.Sort}}</td><td>{{.Text}}</td><td>{{if .Broken}}<span class="bad">
broken {{.Broken}}×</span>{{else}}<span class="good">kept</span>{{end}}</td></tr>{{end}}</table>
<h2>Pairs of nemeses that were at work together</h2>
<p class="small">{{.Met}} of {{.All}} pairs; a row's own count is how often it struck.</p>
<table class="matrix">{{range .Matrix}}<tr><th>{{.Name}}</th><th>{{.Count}}×</th>{{range .Cells}}<td class="{{shade .}}">{{.}}</td>{{end}}</tr>
{{end}}<tr><th></th><th></th>{{range .Kinds}}<th class="up">{{.}}</th>{{end}}</tr></table>
<h2>Figures</h2><table>{{range .Figures}}<tr><td>{{.Name}}</td><td>{{.Value}}</td></tr>{{end}}</table>
<h2>Faults</h2><table><tr><th>from</th><th>to</th><th>fault</th><th>struck</th><th></th></tr>
{{range .FaultRows}}<tr><td>{{at .From}}</td><td>{{at .To}}</td><td>{{.Nemesis}}</td><td>
{{range .Targets}}{{.}} {{end}}</td><td>{{.Note}} {{.Error}}</td></tr>{{end}}</table>
{{with .FaultsLeft}}<p class="small">And {{.}} more, in the history.</p>{{end}}
{{with .History.After}}<h2>Lost for good</h2>{{with .Death}}<p>At {{at .At}} {{.Node}} died with its disk, and {{.Next}} joined. The voters healed after
{{.HealedMs}} ms; of {{.Voters}} voters there were never fewer than {{.Fewest}}.</p>{{end}}
{{with .Recovery}}<p>At {{at .At}} all voters were dead. The disks of {{range .Left}}{{.}} {{end}}could be read; {{.Heir}}'s was recovered, and served at
{{at .Served}} as {{.Now.ClusterID}}, incarnation {{.Now.Incarnation}}. Members at the end: {{range .Members}}{{.}} {{end}}</p>
<table><tr><th>disk</th><th>last term</th><th>last index</th><th>digest</th></tr>{{range .Disks}}<tr><td>{{.Node}}</td><td>{{.Term}}</td>
<td>{{.Index}}</td><td>{{.Digest}}</td></tr>{{end}}</table>
<table>{{range .Returned}}<tr><td>{{.Node}} came back{{if .Empty}}, its disk empty{{end}}</td><td>{{.Said}}</td></tr>{{end}}</table>{{end}}
{{with .Error}}<p class="bad">It stopped at: {{.}}</p>{{end}}{{end}}
{{if .History.Notes}}<h2>Notes</h2><pre>{{range .History.Notes}}{{.}}
{{end}}</pre>{{end}}
</body></html>
`))
