package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// tags returns the plants that the tree has files for.
func tags(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() || !strings.HasPrefix(name, "plant_") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		found = append(found, strings.TrimSuffix(strings.TrimPrefix(name, "plant_"), ".go"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestEveryPlantOfTheTreeIsPlanted(t *testing.T) {
	t.Parallel()
	var named []string
	for _, p := range plants {
		named = append(named, p.name)
	}
	slices.Sort(named)
	if found := tags(t); !slices.Equal(found, named) {
		t.Errorf("the tree has files for\n%v\nthe table names\n%v", found, named)
	}
	if len(named) != 28 {
		t.Errorf("got %d plants, want 28", len(named))
	}
}

// TestEveryPatternMatchesATest requires that the phrases of each pattern are in the sources of its package or of fsm: a
// message that is reworded would make its plant pass unnoticed until the plants run.
func TestEveryPatternMatchesATest(t *testing.T) {
	t.Parallel()
	verb, joined := regexp.MustCompile(`%[+#]?[a-zA-Z]`), regexp.MustCompile(`"\s*\+\s*"`)
	meta := regexp.MustCompile(`\\[dSwW][+*]?|\[[^\]]*\][+*]?|\.\*|[()\\]`)
	sources := func(pkg string) (text string) {
		files, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text += string(b)
		}
		return verb.ReplaceAllString(joined.ReplaceAllString(text, ""), "%")
	}
	value := regexp.MustCompile(`\b([A-Z_]{4,}|true|false)\b|"\w+"`)
	in := func(pattern, text string) bool {
		phrases := 0
		for _, phrase := range meta.Split(pattern, -1) {
			phrase = strings.TrimSpace(value.ReplaceAllString(phrase, "%"))
			if len(phrase) < 7 {
				continue
			}
			if phrases++; !strings.Contains(text, phrase) {
				return false
			}
		}
		return phrases > 0
	}
	machine := sources("fsm") + sources("fsm/internal/*")
	for _, p := range plants {
		for _, c := range p.checks {
			text := sources(c.pkg) + machine
			if !slices.ContainsFunc(strings.Split(c.says, "|"), func(s string) bool { return in(s, text) }) {
				t.Errorf("%s: no test of %s prints %s", p.name, c.pkg, c.says)
			}
		}
	}
}

// TestEveryPlantIsTold requires a line for each plant in docs/internals/testing.md.
func TestEveryPlantIsTold(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "internals", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plants {
		if !strings.Contains(string(text), "| `"+p.name+"` | ") {
			t.Errorf("docs/internals/testing.md does not tell of %s", p.name)
		}
	}
}

// TestEveryCheckerIsThere checks that each checker exists: a renamed checker would match no test, and is found here
// rather than in the run that needs it.
func TestEveryCheckerIsThere(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		if len(p.checks) == 0 {
			t.Errorf("%s has no checker", p.name)
		}
		for _, c := range p.checks {
			run, err := regexp.Compile(c.run)
			if _, errSays := regexp.Compile(c.says); err != nil || errSays != nil || c.says == "" {
				t.Fatalf("%s: %v, %v", p.name, err, errSays)
			}
			files, err := filepath.Glob(filepath.Join(root, c.pkg, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no tests in %s (%v)", p.name, c.pkg, err)
			}
			if !slices.ContainsFunc(files, func(f string) bool { return declares(t, f, run) }) {
				t.Errorf("%s: no test %s in %s", p.name, c.run, c.pkg)
			}
		}
	}
}

var declaration = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

func declares(t *testing.T, file string, run *regexp.Regexp) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(declaration.FindAllStringSubmatch(string(text), -1),
		func(m []string) bool { return run.MatchString(m[1]) })
}

func TestRotate(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5, len(plants), 99} {
		seen := map[string]int{}
		for seed := range uint64(len(plants)) {
			chosen := rotate(plants, n, 1<<32+seed)
			if len(chosen) != min(n, len(plants)) {
				t.Fatalf("%d of %d were chosen", len(chosen), n)
			}
			for _, p := range chosen {
				seen[p.name]++
			}
		}
		if len(seen) != len(plants) {
			t.Errorf("of %d seeds in a row by %d only %d plants had their turn", len(plants), n, len(seen))
		}
	}
	if _, err := choose("crc_off,none", 0, 0); err == nil {
		t.Error("a plant that is not there was chosen")
	}
	if two, err := choose("crc_off,no_fsync", 3, 1); err != nil || len(two) != 2 || two[0].name != "crc_off" {
		t.Errorf("%v, %v", two, err)
	}
}

// failed returns the error of a process that exited with a status.
func failed(t *testing.T, status string) error {
	t.Helper()
	return exec.Command("sh", "-c", "exit "+status).Run()
}

func TestJudge(t *testing.T) {
	t.Parallel()
	c := check{pkg: "fsm", run: "^TestX$", says: `two of \d+`}
	const said = "--- FAIL: TestX (0.00s)\n    x_test.go:7: two of 3 are lost\nFAIL\nFAIL\tx\t0.1s\n"
	for name, x := range map[string]struct {
		output string
		err    error
		missed string
	}{
		"caught": {said, failed(t, "1"), ""},
		"on a second line": {"--- FAIL: TestX (0.00s)\n    x_test.go:7: bad:\n        two of 3\nFAIL\n",
			failed(t, "1"), ""}, "passes": {"ok x 0.1s\n", nil, "does not bite"},
		"does not build":        {"x.go:1: two of 3\nFAIL\tx [build failed]\n", failed(t, "1"), "build failed"},
		"a panic":               {said + "panic: two of 3\n", failed(t, "1"), "panic"},
		"no test":               {"ok x 0.1s [no tests to run]\n", failed(t, "1"), "no tests"},
		"other words":           {strings.ReplaceAll(said, "two", "one"), failed(t, "1"), "not with"},
		"words of no checker":   {"--- FAIL: TestX (0.00s)\ntwo of 3\n", failed(t, "1"), "not with"},
		"another exit status":   {said, failed(t, "2"), "did not come to its end"},
		"not even a go command": {"", errors.New("not found"), "did not come to its end"},
	} {
		words, missed := c.judge(x.output, x.err)
		if (missed == "") != (x.missed == "") || !strings.Contains(missed, x.missed) ||
			(words == "") != (x.missed != "") {
			t.Errorf("%s: caught by %q, missed by %q", name, words, missed)
		}
	}
}
