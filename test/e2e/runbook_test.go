package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// TestRunbooks runs the command of each page of docs/runbooks exactly as written, against three nodes, and compares its
// output with the page: there … matches anything, a line of … any lines.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "grep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the commands of the runbooks are left out: %v", err)
		}
	}
	pages, err := filepath.Glob("../../docs/runbooks/Rota*.md")
	check(t, err)
	if len(pages) < 10 {
		t.Fatalf("%d pages", len(pages))
	}
	c := newCluster(t, 3)
	c.rota(t, "job", "submit", "--type", "t").want(t, 0)
	bin := t.TempDir()
	check(t, os.Symlink(rotaBinary, filepath.Join(bin, "rota")))
	var admins []string
	for _, n := range c.all {
		admins = append(admins, n.Admin)
	}
	env := append(rig.Bare(c.env(), "ADMIN="+admins[0], "ADMINS="+strings.Join(admins, " ")),
		"PATH="+bin+":"+os.Getenv("PATH"))
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			text, err := os.ReadFile(page)
			check(t, err)
			commands, outputs := blocks(string(text), "sh"), blocks(string(text), "text")
			if len(commands) != 1 || len(outputs) != 1 {
				t.Fatalf("%s has %d commands and %d outputs, want one of each", page, len(commands), len(outputs))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands[0])
			cmd.Env = env
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", commands[0], err, said)
			}
			if !shaped(outputs[0], string(said)) {
				t.Errorf("%s prints\n%s\nand the page\n%s", commands[0], said, outputs[0])
			}
		})
	}
}

// TestShaped shows that a page with another output is detected.
func TestShaped(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		page, said string
		want       bool
	}{
		{"a …\nb", "a   1\nb\n", true}, {"a …\nb", "a 1\n", false}, {"a …", "b 1", false},
		{"a\n…\nb", "a\nx\ny\nb", true}, {"a\n…\nb", "a\nb", true}, {"equal  true", "equal  false", false},
		{"a.c", "abc", false},
	} {
		if got := shaped(one.page, one.said); got != one.want {
			t.Errorf("%q as %q: %t", one.said, one.page, got)
		}
	}
}

// blocks returns the blocks of a language in a page.
func blocks(page, language string) (all []string) {
	for {
		_, rest, found := strings.Cut(page, "```"+language+"\n")
		if !found {
			return all
		}
		var block string
		block, page, _ = strings.Cut(rest, "\n```")
		all = append(all, block)
	}
}

// gap is white space between columns, whose width depends on their contents.
var gap = regexp.MustCompile(` +`)

// shaped reports whether an output has the shape of the page's.
func shaped(page, said string) bool {
	pattern := "^"
	for line := range strings.Lines(strings.TrimSpace(page) + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if line == "…" {
			pattern += `(?:.*\n)*?`
			continue
		}
		line = gap.ReplaceAllString(regexp.QuoteMeta(line), " +")
		pattern += strings.ReplaceAll(line, "…", ".*") + ` *\n`
	}
	return regexp.MustCompile(pattern + "$").MatchString(strings.TrimSpace(said) + "\n")
}
