package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promising are the documents that name the tests of their promises.
var promising = []string{"docs/reference/guarantees.md", "docs/internals/sources.md", "docs/raft.md",
	"docs/security.md",
	"docs/adding-a-verb.md"}

var (
	// A name that ends with … is the prefix of several tests.
	namedTest = regexp.MustCompile(`\bTest[A-Z]\w*…?`)
	// A file, with its folder or without.
	namedSource = regexp.MustCompile("`([\\w./-]+\\.(?:go|proto|md))`")
	sourceRow   = regexp.MustCompile(`(?m)^\| ([A-Z]+(?:-[A-Z])?)-(\d+) \|(.*)$`)
)

// tests returns the names of all tests and fuzz targets of the repository.
func (t *tree) tests() (names []string) {
	for _, f := range t.files {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test() && fn.Recv == nil {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// checkPromises requires every test and every file that such a document names to exist.
func checkPromises(t *tree, document string) (faults []string) {
	text, err := t.read(document)
	if err != nil {
		return []string{err.Error()}
	}
	tests := t.tests()
	for _, name := range namedTest.FindAllString(string(text), -1) {
		prefix, open := strings.CutSuffix(name, "…")
		if !slices.ContainsFunc(tests, func(test string) bool {
			return test == prefix || open && strings.HasPrefix(test, prefix)
		}) {
			faults = append(faults, fmt.Sprintf("%s names %s, which is not a test", document, name))
		}
	}
	for _, m := range namedSource.FindAllStringSubmatch(string(text), -1) {
		there := func(p string) bool { return p == m[1] || !strings.Contains(m[1], "/") && path.Base(p) == m[1] }
		if !slices.ContainsFunc(t.paths, there) {
			faults = append(faults, fmt.Sprintf("%s names %s, which is not there", document, m[1]))
		}
	}
	return faults
}

// checkSourceRows requires the rows of each source to be numbered without a gap, each with the requirement, where it is
// implemented or why it is not, and a test or a reason.
func checkSourceRows(text string) (faults []string) {
	last := map[string]int{}
	for _, m := range sourceRow.FindAllStringSubmatch(text, -1) {
		source, number := m[1], m[2]
		if last[source]++; fmt.Sprint(last[source]) != number {
			faults = append(faults, fmt.Sprintf("%s-%s comes where %s-%d is due", source, number, source, last[source]))
		}
		cells := strings.Split(strings.ReplaceAll(strings.TrimSuffix(m[3], "|"), `\|`, "/"), "|")
		if len(cells) != 3 || strings.TrimSpace(cells[0]) == "" || strings.TrimSpace(cells[2]) == "" {
			faults = append(faults, fmt.Sprintf("%s-%s has not the three cells: asked, where it lives, test or reason",
				source, number))
		}
	}
	for _, source := range []string{"AICF", "DFPS-S", "DFPS-R", "DAG", "FF"} {
		if last[source] == 0 {
			faults = append(faults, "there are no rows of "+source)
		}
	}
	return faults
}

func TestPromises(t *testing.T) {
	t.Parallel()
	tree, _ := setup(t)
	for _, document := range promising {
		t.Run(path.Base(document), func(t *testing.T) { report(t, checkPromises(tree, document)) })
	}
	text, err := tree.read("docs/internals/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("rows_of_the_sources", func(t *testing.T) { report(t, checkSourceRows(string(text))) })
}

func TestPromisesPlants(t *testing.T) {
	t.Parallel()
	planted, err := plant(map[string]string{
		"docs/x.md":     "| `TestKept`, `TestKept/sub` | `TestK…` `TestGone…` `TestGone` | `fsm/x.go` `x.go` `y.go` `fsm/y.go` |",
		"fsm/x.go":      "package fsm\nfunc TestGone() {}\n",
		"fsm/x_test.go": "package fsm\nfunc TestKept() {}\nfunc (s) TestGone() {}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"docs/x.md names TestGone…, which is not a test", "docs/x.md names TestGone, which is not a test",
		"docs/x.md names y.go, which is not there", "docs/x.md names fsm/y.go, which is not there"}
	if faults := checkPromises(planted, "docs/x.md"); !slices.Equal(faults, want) {
		t.Errorf("faults are %q, want %q", faults, want)
	}
	const rest = "| DFPS-S-1 | a | b | c |\n| DFPS-R-1 | a | | c |\n| DAG-1 | a | b | c |\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"sound": {"| AICF-1 | a \\| b | b | c |\n" + rest + "| FF-1 | a | b | c |\n", nil},
		"a gap": {"| AICF-2 | a | b | c |\n" + rest + "| FF-1 | a | b | c |\n",
			[]string{"AICF-2 comes where AICF-1 is due"}},
		"no test": {"| AICF-1 | a | b | |\n" + rest + "| FF-1 | a | b | c |\n",
			[]string{"AICF-1 has not the three cells: asked, where it lives, test or reason"}},
		"a cell lacks": {"| AICF-1 | a | b |\n" + rest + "| FF-1 | a | b | c |\n",
			[]string{"AICF-1 has not the three cells: asked, where it lives, test or reason"}},
		"no source": {"| AICF-1 | a | b | c |\n" + rest, []string{"there are no rows of FF"}},
	} {
		if faults := checkSourceRows(c.text); !slices.Equal(faults, c.want) {
			t.Errorf("%s: faults are %q, want %q", name, faults, c.want)
		}
	}
}
