package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/spf13/cobra"
)

// TestReference_examples checks the commands in the documents against the binary: each command exists, and so does each
// of its flags.
func TestReference_examples(t *testing.T) {
	t.Parallel()
	pages := []string{filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "CONTRIBUTING.md")}
	err := filepath.WalkDir(filepath.Join("..", "..", "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" && filepath.Base(path) != "cli.md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range commandsOf(string(text)) {
			seen++
			if fault := checkCommand(words); fault != "" {
				t.Errorf("%s: %q: %s", page, strings.Join(words, " "), fault)
			}
		}
	}
	if seen < 60 {
		t.Errorf("%d commands were seen", seen)
	}
	for line, want := range map[string]string{
		"rota job why j --at 7":             "",
		"rota job wyh j":                    "there is no such command",
		"rota job submit --priorty 3":       "there is no flag --priorty",
		"rota worker run --exec 'x --no y'": "",
	} {
		if got := checkCommand(shellWords(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// commandsOf returns the words of each rota command in the shell blocks of a page.
func commandsOf(page string) (commands [][]string) {
	for i, block := range strings.Split(page, "```") {
		body, isShell := strings.CutPrefix(block, "sh\n")
		if i%2 == 0 || !isShell {
			continue
		}
		for _, line := range strings.Split(strings.ReplaceAll(body, "\\\n", " "), "\n") {
			for _, part := range strings.Split(line, "$(") { // words in $(…) are a command, too
				if words := shellWords(part); len(words) > 0 {
					commands = append(commands, words)
				}
			}
		}
	}
	return commands
}

// shellWords returns the words of the first rota command of a line, without quotes, up to where the shell ends it.
func shellWords(line string) (words []string) {
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		case quote == 0 && strings.ContainsRune("|;&#>)", r):
			end()
			if words = fromRota(words); len(words) > 0 || r == '#' {
				return words
			}
			words = nil
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return fromRota(words)
}

// fromRota returns the words from the binary's name on.
func fromRota(words []string) []string {
	for i, w := range words {
		if w == "rota" || w == "bin/rota" {
			return words[i:]
		}
	}
	return nil
}

// checkCommand returns the fault of a command line, or "".
func checkCommand(words []string) string {
	root := rootCommand(&cli.App{})
	command := root
	for _, w := range words[1:] {
		if strings.HasPrefix(w, "-") {
			if command == root {
				continue // a flag of all commands, before the command: its value is skipped below
			}
			break
		}
		var next *cobra.Command
		for _, child := range command.Commands() {
			if child.Name() == w || child.HasAlias(w) {
				next = child
			}
		}
		if next != nil {
			command = next
		} else if command != root {
			break
		}
	}
	if command == root && len(words) > 1 || command.HasSubCommands() {
		return "there is no such command"
	}
	for _, w := range words[1:] {
		name, isFlag := strings.CutPrefix(w, "--")
		if name, _, _ = strings.Cut(name, "="); isFlag && name != "help" && command.Flag(name) == nil &&
			command.InheritedFlags().Lookup(name) == nil {
			return "there is no flag --" + name
		}
	}
	return ""
}
