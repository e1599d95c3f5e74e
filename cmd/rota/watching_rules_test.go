package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"gopkg.in/yaml.v3"
)

// ruleFile is the content of deploy/prometheus/rules.yml.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Record, Alert, Expr string
			Labels, Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) (rules ruleFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestRules checks that the metrics and the pages in the rules exist, and runs the rules' tests with promtool where it
// is installed.
func TestRules(t *testing.T) {
	t.Parallel()
	rules, known := readRules(t), exported(look(t))
	var alerts []string
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				known[r.Record] = true
			}
			if r.Alert == "" {
				continue
			}
			alerts = append(alerts, r.Alert)
			want := "https://github.com/rotasched/rota/blob/main/docs/runbooks/" + r.Alert + ".md"
			if r.Annotations["runbook_url"] != want || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s needs a summary, a severity and the runbook_url %s", r.Alert, want)
			}
		}
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			for _, name := range strangers(r.Expr, known) {
				t.Errorf("rule %s%s: there is no metric %s", r.Record, r.Alert, name)
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "runbooks", "Rota*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		pages[i] = strings.TrimSuffix(filepath.Base(pages[i]), ".md")
	}
	for _, fault := range unpaired(alerts, pages) {
		t.Error(fault)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool check rules and test rules are left out: promtool (Debian's package prometheus) is not installed")
		return
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		run := exec.CommandContext(t.Context(), promtool, args...)
		run.Dir = filepath.Join("..", "..", "deploy", "prometheus")
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestDashboard checks that the metrics in the panels exist.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "rota.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	known := exported(look(t))
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			known[r.Record] = true
		}
	}
	if len(board.Panels) < 10 {
		t.Errorf("%d panels", len(board.Panels))
	}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows no metric", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range strangers(target.Expr, known) {
				t.Errorf("panel %q: there is no metric %s", p.Title, name)
			}
		}
	}
}

// TestStrangers checks that an unknown metric, a page too many and an alert too many are found.
func TestStrangers(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"rota_ready": true, "rota_apply_seconds_bucket": true}
	for expr, want := range map[string]string{
		`rota_ready == 0`: "", `rota_raedy == 0`: "rota_raedy",
		`histogram_quantile(0.99, sum by (job, le) (rate(rota_apply_seconds_bucket{a="b c"}[5m])))`: "",
		`max by (q) (rota_ready) < sum without (x) (other{y="z"})`:                                  "other",
		`(time() - max by (job) (rota_ready > 0)) > 2 * 86400 or nothing`:                           "nothing",
	} {
		if got := strings.Join(strangers(expr, known), " "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	if got := unpaired([]string{"a", "b"}, []string{"b", "c"}); len(got) != 2 {
		t.Errorf("unpaired: %q", got)
	}
}

// exported returns the names that queries may use.
func exported(w watch) map[string]bool {
	known := map[string]bool{"up": true}
	for _, f := range w.families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				known[f.GetName()+end] = true
			}
			continue
		}
		known[f.GetName()] = true
	}
	for line := range strings.Lines(w.scraped) { // metrics of the runtime and the process
		if name := promName.FindString(line); strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			known[name] = true
		}
	}
	return known
}

var (
	promName = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	// promOther matches all parts of an expression except metrics: labels, strings, durations, numbers.
	promOther = regexp.MustCompile(
		`\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\b\d[\d.a-z]*`)
	promCall = regexp.MustCompile(`[a-z_0-9]+\s*\(`)
)

// strangers returns the unknown metrics of an expression.
func strangers(expr string, known map[string]bool) (unknown []string) {
	expr = promOther.ReplaceAllString(expr, " ")
	expr = promCall.ReplaceAllString(expr, " ( ")
	for _, name := range promName.FindAllString(expr, -1) {
		if !known[name] && !slices.Contains([]string{"and", "or", "unless", "bool", "offset", "sum", "max", "min",
			"avg", "count"}, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// unpaired returns the alerts without a page and the pages without an alert.
func unpaired(alerts, pages []string) (faults []string) {
	for _, a := range alerts {
		if !slices.Contains(pages, a) {
			faults = append(faults, "the alert "+a+" has no page: docs/runbooks/"+a+".md")
		}
	}
	for _, p := range pages {
		if !slices.Contains(alerts, p) {
			faults = append(faults, "docs/runbooks/"+p+".md: there is no such alert in deploy/prometheus/rules.yml")
		}
	}
	return faults
}
