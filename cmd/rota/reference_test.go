package main

import (
	"fmt"
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

// The pages of docs/reference that are made of the binary itself are written anew by
// go test ./cmd/rota -run TestReference -update.

// holdPage compares a page with what the binary says, or writes it under -update.
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

// TestReference_commands holds docs/reference/cli.md to the help of every command.
func TestReference_commands(t *testing.T) {
	t.Parallel()
	root := rootCommand(&cli.App{})
	var b strings.Builder
	b.WriteString("# The command line\n\nEvery command with its help, made of the binary by\n" +
		"`go test ./cmd/rota -run TestReference -update`. Flags that every command has stand once, at `rota`.\n" +
		"Exit codes and kinds of errors: [errors](errors.md).\n" +
		"\nA command says which rights its caller needs, for [roles](../guides/security.md): over the tenants and queues that it is about, or over\n" +
		"all of them where it is about none. What users put into jobs, which are payloads, outputs, errors and notes, is shown with `data` only;\n" +
		"events that belong to no tenant with `audit`.\n")
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" || cmd.Name() == "help" || cmd.Hidden {
			return
		}
		writeCommand(&b, cmd)
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)
	holdPage(t, "cli.md", b.String())
}

// writeCommand writes one command's section.
func writeCommand(b *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", cmd.CommandPath(), sentence(cmd.Short))
	if cmd.Long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(cmd.Long))
	}
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", cmd.UseLine())
	}
	if rights := cmd.Annotations[rightsKey]; rights != "" {
		fmt.Fprintf(b, "\nRights: %s.\n", rights)
	}
	if cmd.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimSpace(cmd.Example), "\n  ", "\n"))
	}
	if children := cmd.Commands(); len(children) > 0 {
		b.WriteString("\n| command | |\n|---|---|\n")
		for _, child := range children {
			if child.Name() != "completion" && child.Name() != "help" && !child.Hidden {
				fmt.Fprintf(b, "| [%s](#%s) | %s |\n", child.CommandPath(), strings.ReplaceAll(child.CommandPath(), " ", "-"), sentence(child.Short))
			}
		}
	}
	flags := cmd.LocalFlags()
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString("\n| flag | value | default | |\n|---|---|---|---|\n")
	flags.VisitAll(func(flag *pflag.Flag) {
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
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, value, start, strings.ReplaceAll(sentence(usage), "|", "\\|"))
	})
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// TestReference_errors holds the table of kinds in docs/reference/errors.md to the codes that
// the binary and the wire give them.
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

// description is how a metric describes itself.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

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
				name, _, _ := strings.Cut(strings.TrimSpace(l), "=") // a label that is the same in every series has its value behind
				labels = append(labels, "`"+name+"`")
			}
			lines = append(lines, fmt.Sprintf("| `%s` | %s | %s |", m[1], strings.Join(labels, ", "), m[2]))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
