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
	b.WriteString("# The command line\n\nEvery command, generated from the binary by `go test ./cmd/rota -run TestReference -update`.\n" +
		"`rota COMMAND --help` has examples. Exit codes and kinds of errors: [errors](errors.md).\n" +
		"\nBelow a command's title are its arguments and required flags: `|` separates alternatives, and `…` follows an argument or a\n" +
		"flag that may be repeated. Its rights are those that its caller needs, for [roles](../guides/security.md): for the tenants\n" +
		"and queues that it concerns, otherwise for all.\n" +
		"Payloads, outputs, errors and notes of jobs need the access right `data`; events without a tenant need `audit`.\n" +
		"Commands without a line of rights need none.\n" +
		"\nEvery command has the flags of [rota](#rota). Flags of several commands are in this table; their commands name them after \"Also\".\n" +
		"\n|flag|default||\n|---|---|---|\n")
	uses := map[string]int{}
	eachCommand(root, func(cmd *cobra.Command) {
		if aliasOf(cmd) != "" {
			return
		}
		for _, row := range flagRows(cmd) {
			uses[row.text]++
		}
	})
	shared := map[string]string{} // name to text
	for _, text := range slices.Sorted(maps.Keys(uses)) {
		name, _, _ := strings.Cut(text, "`|")
		name, _, _ = strings.Cut(name, " ")
		if other, ok := shared[name]; uses[text] >= sharedFlag && (!ok || uses[other] < uses[text]) {
			shared[name] = text
		}
	}
	rows := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		b.WriteString(shared[name])
		rows[shared[name]] = true
	}
	eachCommand(root, func(cmd *cobra.Command) { writeCommand(&b, cmd, rows) })
	holdPage(t, "cli.md", b.String())
}

// sharedFlag is how many commands have a flag, with the same help, that is described once.
const sharedFlag = 2

// aliasOf returns the command that a command is the same as, empty for most.
func aliasOf(cmd *cobra.Command) string {
	of, _ := strings.CutPrefix(cmd.Short, "The same as ")
	if of == cmd.Short {
		return ""
	}
	return of
}

func linkTo(path, text string) string {
	return "[" + text + "](#" + strings.ReplaceAll(path, " ", "-") + ")"
}

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
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + "`, `" + name
		}
		shown := name
		if value != "" {
			shown += " " + placeholder(value)
		}
		if short, repeats := strings.CutSuffix(usage, "; may be repeated"); repeats {
			usage, shown = short, shown+"…"
		}
		start := ""
		if d := flag.DefValue; d != "" && d != "[]" && d != "0" && d != "false" && d != "0s" {
			start = "`" + strings.Trim(d, "[]") + "`"
		}
		rows = append(rows, flagRow{"`" + name + "`", fmt.Sprintf("|`%s`|%s|%s|\n",
			strings.ReplaceAll(shown, "|", "\\|"), start, strings.ReplaceAll(sentence(usage), "|", "\\|"))})
	})
	return rows
}

// placeholder returns the word that the page shows for a flag's value.
func placeholder(value string) string {
	switch value {
	case "int", "int32", "float":
		return "NUMBER"
	case "string":
		return "TEXT"
	}
	if upper := strings.ToUpper(value); strings.ToLower(value) == value {
		return upper
	}
	return value // in capitals already, except what stays as it is
}

// writeCommand writes one command's section; flags that are described once are only named.
func writeCommand(b *strings.Builder, cmd *cobra.Command, shared map[string]bool) {
	if of := aliasOf(cmd); of != "" {
		fmt.Fprintf(b, "\n## %s\n\nThe same as %s.\n", cmd.CommandPath(), linkTo(of, of))
		return
	}
	fmt.Fprintf(b, "\n## %s\n", cmd.CommandPath())
	if syntax := syntaxOf(cmd); syntax != "" {
		fmt.Fprintf(b, "\n`%s`\n", syntax)
	}
	writeHelp(b, cmd)
	var links []string
	for _, child := range cmd.Commands() { // of a group they follow
		if !cmd.HasParent() && child.Name() != "completion" && child.Name() != "help" && !child.Hidden {
			links = append(links, linkTo(child.CommandPath(), child.Name()))
		}
	}
	if len(links) > 0 {
		fmt.Fprintf(b, "\nCommands: %s.\n", strings.Join(links, ", "))
	}
	var own, named []string
	for _, row := range flagRows(cmd) {
		if shared[row.text] {
			named = append(named, row.name)
		} else {
			own = append(own, row.text)
		}
	}
	if len(own) > 0 {
		b.WriteString("\n|flag|default||\n|---|---|---|\n" + strings.Join(own, ""))
	}
	if len(named) > 0 {
		fmt.Fprintf(b, "\nAlso %s.\n", strings.Join(named, ", "))
	}
}

// optionalFlag matches the usage of a flag that may be left out, in a command's usage line. The tables describe it.
var optionalFlag = regexp.MustCompile(` \[--?[a-z-]+(?: [^\[\] ]+(?:\[[^\]]+\])?)?\](?:…| …)?`)

// syntaxOf returns the arguments and required flags of a command, without the command, which is its section's title.
func syntaxOf(cmd *cobra.Command) string {
	if !cmd.Runnable() || cmd.HasSubCommands() {
		return ""
	}
	line := strings.TrimPrefix(strings.TrimSuffix(cmd.UseLine(), " [flags]"), cmd.CommandPath())
	for before := ""; before != line; {
		before, line = line, optionalFlag.ReplaceAllString(line, "")
	}
	return strings.TrimSpace(line)
}

// writeHelp writes the help of a command and the rights that it needs. The help begins with its short form, or replaces
// it if it begins with the same words.
func writeHelp(b *strings.Builder, cmd *cobra.Command) {
	const same = 1 // word
	text, long := sentence(cmd.Short), strings.TrimSpace(cmd.Long)
	long, keys, hasKeys := strings.Cut(long, "\n\nKeys, ")
	starts, words := strings.Fields(long), strings.Fields(text)
	if len(starts) > same && slices.Equal(starts[:same], words[:min(same, len(words))]) {
		text = long
	} else if long != "" {
		text += "\n" + long
	}
	var parts []string
	for i, part := range strings.Split(text, "\n\n") {
		switch {
		case i > 0 && aligned.MatchString(part) && strings.HasSuffix(parts[len(parts)-1], "\n```"):
			parts[len(parts)-1] = strings.TrimSuffix(parts[len(parts)-1], "\n```") + "\n\n" + part + "\n```"
		case aligned.MatchString(part):
			parts = append(parts, "```text\n"+part+"\n```")
		default:
			parts = append(parts, markdown.Replace(part))
		}
	}
	if hasKeys {
		first, _, _ := strings.Cut(keys, ":")
		parts = append(parts, "[Keys](policy.md), "+first+".")
	}
	if rights, _, _ := strings.Cut(cmd.Annotations[rightsKey], ":"); rights != "" && rights != "none" {
		parts = append(parts, "Rights: "+rights+".")
	}
	b.WriteString("\n" + strings.Join(parts, "\n\n") + "\n")
}

// aligned matches text in columns, which the page leaves as it is.
var aligned = regexp.MustCompile(`(?m)^ |[^.:;] {2,}`)

// markdown escapes the characters of plain text that have a meaning in Markdown.
var markdown = strings.NewReplacer("*", "\\*", "<", "\\<", "[", "\\[")

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
