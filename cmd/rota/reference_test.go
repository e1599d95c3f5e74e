package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/cli"
)

// The pages of docs/reference that are made of the binary itself are updated by go test ./cmd/rota -run TestReference
// -update.

// holdPage compares a page with the binary's output, or writes it under -update.
func holdPage(t *testing.T, name, page string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "reference", name)
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != page {
		t.Fatalf("docs/reference/%s is stale (%v): run `go test ./cmd/rota -run TestReference -update`", name, err)
	}
}

// TestReference_commands compares docs/reference/cli.md with the help of every command.
func TestReference_commands(t *testing.T) {
	t.Parallel()
	root := rootCommand(&cli.App{})
	var b strings.Builder
	b.WriteString("# The command line\n\nEvery command with its help, generated from the binary by\n" +
		"`go test ./cmd/rota -run TestReference -update`. Exit codes and kinds of errors: [errors](errors.md).\n" +
		"\nEach command lists the rights that its caller needs, for [roles](../guides/security.md): for the tenants and queues that the\n" +
		"command concerns, otherwise for all of them. Payloads, outputs, errors and notes of jobs are shown only with the right `data`;\n" +
		"events without a tenant only with `audit`.\n" +
		"\nFlags of every command are listed at [rota](#rota), flags of several commands in this table.\n\n" +
		"| flag | value | default | |\n|---|---|---|---|\n")
	uses := map[string]int{}
	eachCommand(root, func(cmd *cobra.Command) {
		for _, row := range flagRows(cmd) {
			uses[row.text]++
		}
	})
	for row, n := range uses {
		if n < sharedFlag {
			delete(uses, row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(uses)) {
		b.WriteString(row)
	}
	eachCommand(root, func(cmd *cobra.Command) { writeCommand(&b, cmd, uses) })
	holdPage(t, "cli.md", b.String())
}

// sharedFlag is how many commands have a flag, with the same help, that is described once.
const sharedFlag = 4

// eachCommand calls f with a command and the commands below it, as the page lists them.
func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	if cmd.Name() == "completion" || cmd.Name() == "help" || cmd.Hidden {
		return
	}
	f(cmd)
	for _, child := range cmd.Commands() {
		eachCommand(child, f)
	}
}

// flagRow is a flag's line in a table of flags.
type flagRow struct{ name, text string }

func flagRows(cmd *cobra.Command) (rows []flagRow) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(flag)
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name = "`-" + flag.Shorthand + "`, " + name
		}
		start := ""
		if d := flag.DefValue; d != "" && d != "[]" && d != "0" && d != "false" && d != "0s" {
			start = "`" + strings.Trim(d, "[]") + "`"
		}
		rows = append(rows, flagRow{name, fmt.Sprintf("| %s | %s | %s | %s |\n", name, value, start,
			strings.ReplaceAll(sentence(usage), "|", "\\|"))})
	})
	return rows
}

// writeCommand writes one command's section; flags that are described once are only named.
func writeCommand(b *strings.Builder, cmd *cobra.Command, shared map[string]int) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", cmd.CommandPath(), sentence(cmd.Short))
	if long := strings.TrimSpace(strings.TrimPrefix(cmd.Long, sentence(cmd.Short))); long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", long)
	}
	var lines []string
	if cmd.Runnable() && !cmd.HasSubCommands() {
		lines = append(lines, cmd.UseLine())
	}
	if cmd.Example != "" {
		lines = append(lines, strings.ReplaceAll(strings.TrimSpace(cmd.Example), "\n  ", "\n"))
	}
	for _, text := range lines {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", text)
	}
	if rights := cmd.Annotations[rightsKey]; rights != "" {
		fmt.Fprintf(b, "\nRights: %s.\n", rights)
	}
	if children := cmd.Commands(); len(children) > 0 {
		b.WriteString("\n| command | |\n|---|---|\n")
		for _, child := range children {
			if child.Name() != "completion" && child.Name() != "help" && !child.Hidden {
				fmt.Fprintf(b, "| [%s](#%s) | %s |\n", child.CommandPath(),
					strings.ReplaceAll(child.CommandPath(), " ", "-"), sentence(child.Short))
			}
		}
	}
	var own, named []string
	for _, row := range flagRows(cmd) {
		if shared[row.text] > 0 {
			named = append(named, row.name)
		} else {
			own = append(own, row.text)
		}
	}
	if len(own) > 0 {
		b.WriteString("\n| flag | value | default | |\n|---|---|---|---|\n" + strings.Join(own, ""))
	}
	if len(named) > 0 {
		fmt.Fprintf(b, "\n[Shared flags](#the-command-line): %s.\n", strings.Join(named, ", "))
	}
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// TestReference_errors compares the table of kinds in docs/reference/errors.md with the codes that the binary and the
// wire give them.
func TestReference_errors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	for kind := rota.KindInvalid; kind <= rota.KindInternal; kind++ {
		row := fmt.Sprintf("| %s | %s | %d |", kind, words.CodeOf(kind), cli.KindCode(kind))
		if !strings.Contains(string(text), "\n"+row) {
			t.Errorf("docs/reference/errors.md has no row that begins with %q", row)
		}
	}
}

// description matches a metric's description of itself.
var description = regexp.MustCompile(
	`^Desc\{fqName: "([^"]+)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// described returns a line of the table for each metric of the collectors, by name.
func described(collectors []prometheus.Collector) (lines []string) {
	for _, c := range collectors {
		to := make(chan *prometheus.Desc)
		go func() {
			c.Describe(to)
			close(to)
		}()
		for desc := range to {
			m := description.FindStringSubmatch(desc.String())
			if m == nil {
				m = []string{"", "unreadable " + desc.String(), "", "", ""}
			}
			var labels []string
			for _, l := range strings.FieldsFunc(m[3]+","+m[4], func(r rune) bool { return r == ',' }) {
				name, _, _ := strings.Cut(strings.TrimSpace(l),
					"=") // a label equal in every series is followed by its value
				labels = append(labels, "`"+name+"`")
			}
			lines = append(lines, fmt.Sprintf("| `%s` | %s | %s |", m[1], strings.Join(labels, ", "), m[2]))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
