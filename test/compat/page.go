package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// pageHead begins the page.
const pageHead = `# Compatibility

<!-- Written by make compat (test/compat). Do not edit. -->

The last results of ` + "`make compat`" + `: each row is a tool at a pinned version, run against a real cluster on one machine.
*Works* means that the cluster confirmed the outcome. [test/compat](../test/compat/doc.go) explains how rows are run and
added.
`

// titles are the headings of the groups.
var titles = map[string]string{
	"protocols":  "Protocols",
	"runtimes":   "Runtimes of the clients",
	"recipients": "Recipients of encrypted backups",
	"generators": "Clients generated from the OpenAPI description",
	"proxies":    "Proxies",
	"postgres":   "PostgreSQL for the outbox relay",
	"stores":     "S3 stores for backups",
	"issuers":    "Issuers of identity tokens",
}

// writePage writes all results; rows without a new one keep their line of the page.
func writePage(path string, all []row, results []result) error {
	old := map[string]string{}
	if text, err := os.ReadFile(path); err == nil {
		for line := range strings.Lines(string(text)) {
			if cells := strings.Split(line, "|"); len(cells) > 3 {
				old[strings.TrimSpace(cells[1])+"|"+strings.TrimSpace(cells[2])] = strings.TrimSuffix(line, "\n")
			}
		}
	}
	lines := map[string]string{}
	for _, r := range results {
		lines[r.key()] = fmt.Sprintf("| %s | %s | %s | %s | %s |", r.tool, r.does, cell(r.version), cell(r.text),
			r.date.Format(time.DateOnly))
	}
	var page strings.Builder
	page.WriteString(pageHead)
	for _, group := range groups(all) {
		fmt.Fprintf(&page, "\n## %s\n\n| tool | actions | version | result | date |\n|---|---|---|---|---|\n",
			titles[group])
		for _, r := range all {
			if r.group != group {
				continue
			}
			line := lines[r.key()]
			if line == "" {
				line = old[r.key()]
			}
			if line == "" {
				line = fmt.Sprintf("| %s | %s | | not run yet | |", r.tool, r.does)
			}
			page.WriteString(line + "\n")
		}
	}
	return os.WriteFile(path, []byte(page.String()), 0o644)
}

// key names a row in the page.
func (r row) key() string { return r.tool + "|" + r.does }

// cell makes a text safe for a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}
