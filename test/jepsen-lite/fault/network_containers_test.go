package fault

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// TestComposition_pattern requires the commands that are made for further nodes to be those of docker-compose.yml,
// except for the number.
func TestComposition_pattern(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	c := &composition{nodes: shipped}
	for i := range shipped {
		name := "n" + string(rune('1'+i))
		if want, got := commandIn(string(text), name), c.command(i+1); !slices.Equal(want, got) {
			t.Errorf("%s is shipped with\n%q, and others are made after\n%q", name, want, got)
		}
	}
}

// commandIn reads the command of a service from docker-compose.yml.
func commandIn(text, service string) (words []string) {
	_, text, _ = strings.Cut(text, "\n  "+service+":\n")
	_, text, _ = strings.Cut(text, "    command:\n")
	for line := range strings.Lines(text) {
		word, is := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !is {
			return words
		}
		words = append(words, word)
	}
	return words
}

// TestStrikesIn requires each nemesis of containers to exist, and to strike where it can.
func TestStrikesIn(t *testing.T) {
	t.Parallel()
	for _, name := range inContainers {
		if !slices.ContainsFunc(nemeses, func(n nemesis) bool { return n.name == name }) {
			t.Errorf("no nemesis is called %s", name)
		}
		if !strikesIn(check.NetworkOfContainers, name) {
			t.Errorf("%s does not strike in containers", name)
		}
		if unplugs := slices.Contains(unpluggings, name); strikesIn("namespaces", name) == unplugs {
			t.Errorf("%s strikes processes: %v", name, !unplugs)
		}
	}
	for _, name := range []string{"one-way", "bridge", "isolate-leader"} {
		if strikesIn(check.NetworkOfContainers, name) || !strings.Contains(LeftOut(), name) {
			t.Errorf("%s is not left out in containers, or the verdict does not mention it", name)
		}
	}
}
