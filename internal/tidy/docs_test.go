package tidy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// rows returns the cells of a Markdown table: the one whose head begins with the given cells. Code marks are removed.
func rows(text string, head ...string) [][]string {
	var found [][]string
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(c), "`", ""))
		}
		switch {
		case len(cells) >= len(head) && slices.Equal(cells[:len(head)], head):
			inside = true
		case inside && !strings.HasPrefix(cells[0], "---"):
			found = append(found, cells)
		}
	}
	return found
}

// checkMoves compares the table of docs/reference/lifecycle.md with the one in states.go.
func checkMoves(text string) []string {
	var faults []string
	told := map[string]bool{}
	for _, r := range rows(text, "from", "to") {
		key := r[0] + " → " + r[1]
		if told[key] {
			faults = append(faults, key+" is listed twice")
		}
		told[key] = true
	}
	for from := rota.JobNone; from <= rota.JobCancelled; from++ {
		for to := rota.JobNone; to <= rota.JobCancelled; to++ {
			name := from.String()
			if from == rota.JobNone {
				name = "none"
			}
			key := name + " → " + to.String()
			if legal := from.MayBecome(to); legal && !told[key] {
				faults = append(faults, key+" is legal but not listed")
			} else if !legal && told[key] {
				faults = append(faults, key+" is listed but not legal")
			}
			delete(told, key)
		}
	}
	for key := range told {
		faults = append(faults, key+" is not a pair of states")
	}
	slices.Sort(faults)
	return faults
}

// checkRoomsTold requires docs/architecture.md to list exactly the rooms of the table here.
func checkRoomsTold(text string) []string {
	var faults []string
	told := map[string]bool{}
	for _, r := range rows(text, "package", "what it is") {
		name, _, _ := strings.Cut(r[0], " ")
		told[name] = true
	}
	for _, r := range rooms {
		if r.path != "internal/deps" && !told[r.path] {
			faults = append(faults, r.path+" is not listed")
		}
		delete(told, r.path)
	}
	for name := range told {
		faults = append(faults, name+" is listed but not a room")
	}
	slices.Sort(faults)
	return faults
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// fenced is a block of code, which has no links.
var fenced = regexp.MustCompile("(?ms)^ *```.*?\n *```")

// checkLinks follows the relative links of every Markdown file.
func checkLinks(t *tree) []string {
	var faults []string
	for _, p := range t.paths {
		if !strings.HasSuffix(p, ".md") || hidden(p) {
			continue
		}
		text, err := t.read(p)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			target := path.Join(path.Dir(p), m[1])
			if !slices.ContainsFunc(t.paths, func(q string) bool { return beneath(q, target) }) {
				faults = append(faults, fmt.Sprintf("%s: the link to %s leads nowhere", p, m[1]))
			}
		}
	}
	return faults
}

// index lists every page for readers.
const index = "docs/README.md"

// checkIndex requires a link in the index to every page under docs, except decisions.
func checkIndex(t *tree) []string {
	text, err := t.read(index)
	if err != nil {
		return []string{err.Error()}
	}
	linked := map[string]bool{index: true}
	for _, m := range link.FindAllStringSubmatch(string(text), -1) {
		linked[path.Join(path.Dir(index), m[1])] = true
	}
	var faults []string
	for _, p := range t.paths {
		if beneath(p, "docs") && !beneath(p, "docs/adr") && path.Ext(p) == ".md" && !linked[p] {
			faults = append(faults, p+" is not in "+index+": add a link")
		}
	}
	return faults
}

var named = regexp.MustCompile(
	"`((?:fsm|sched|cluster|transport|client|snapshot|api|cmd|internal|test)/[a-z0-9_./-]+\\.(?:go|proto|md|txt))`")

// checkNamedFiles requires every file that a document names in code marks to exist.
func checkNamedFiles(t *tree) []string {
	var faults []string
	for _, p := range t.paths {
		if !strings.HasSuffix(p, ".md") || hidden(p) {
			continue
		}
		text, err := t.read(p)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(t.paths, m[1]) {
				faults = append(faults, fmt.Sprintf("%s names %s, which is not there", p, m[1]))
			}
		}
	}
	return faults
}

// checkReasons requires a reason in the ADR for every direct dependency of go.mod, and none for others.
func checkReasons(gomod, adr string) []string {
	var faults []string
	var direct []string
	inside := false
	for _, line := range strings.Split(gomod, "\n") {
		fields := strings.Fields(line)
		switch {
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		case inside && len(fields) >= 2 && !strings.Contains(line, "// indirect"):
			direct = append(direct, fields[0])
		}
	}
	var told []string
	for _, r := range rows(adr, "module", "why") {
		told = append(told, r[0])
		if !slices.Contains(direct, r[0]) {
			faults = append(faults, r[0]+" has a reason but is not a direct dependency")
		}
	}
	for _, d := range direct {
		if !slices.Contains(told, d) {
			faults = append(faults, d+" has no reason in the ADR on dependencies")
		}
	}
	return faults
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	tree, _ := setup(t)
	text := func(p string) string {
		b, err := tree.read(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, faults := range map[string][]string{
		"moves_are_those_of_states.go":    checkMoves(text("docs/reference/lifecycle.md")),
		"rooms_are_those_of_the_guard":    checkRoomsTold(text("docs/architecture.md")),
		"links_lead_somewhere":            checkLinks(tree),
		"every_page_is_in_the_index":      checkIndex(tree),
		"named_files_are_there":           checkNamedFiles(tree),
		"dependencies_have_their_reasons": checkReasons(text("go.mod"), text("docs/adr/0004-dependencies.md")),
	} {
		t.Run(name, func(t *testing.T) { report(t, faults) })
	}
}

func TestDocumentsPlants(t *testing.T) {
	t.Parallel()
	tree, _ := setup(t)
	lifecycle, err := tree.read("docs/reference/lifecycle.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(lifecycle)
	for name, c := range map[string]struct{ text, want string }{
		"a move left out": {strings.Replace(text, "| QUEUED | ASSIGNED |", "| QUEUED | EXPIRED |", 1),
			"QUEUED → ASSIGNED is legal but not listed"},
		"a move made up": {strings.Replace(text, "| QUEUED | ASSIGNED |", "| QUEUED | RUNNING |", 1),
			"QUEUED → RUNNING is listed but not legal"},
		"a state made up": {strings.Replace(text, "| QUEUED | ASSIGNED |", "| QUEUED | ASLEEP |", 1),
			"QUEUED → ASLEEP is not a pair of states"},
		"no table any more": {"", "QUEUED → ASSIGNED is legal but not listed"},
	} {
		if faults := checkMoves(c.text); !slices.Contains(faults, c.want) {
			t.Errorf("%s: faults are %q, want %q among them", name, faults, c.want)
		}
	}
	if faults := checkRoomsTold(
		"| package | what it is |\n|---|---|\n| `sched` | x |\n| `shed` | x |\n"); slices.Contains(
		faults, "sched is not listed") || !slices.Contains(faults, "shed is listed but not a room") ||
		!slices.Contains(faults, "fsm is not listed") {
		t.Errorf("faults of a wrong table of rooms are %q", faults)
	}
	planted, err := plant(
		map[string]string{"docs/a.md": "[x](b.md) [y](../c) [z](https://example.org/q) [w](d.md) `fsm/gone.go` `fsm/x.go`",
			"docs/b.md": "", "c/e.txt": "", "fsm/x.go": "package fsm\n"})
	if err != nil {
		t.Fatal(err)
	}
	if faults := checkLinks(planted); len(faults) != 1 || !strings.Contains(faults[0], "d.md") {
		t.Errorf("faults of a broken link are %q", faults)
	}
	lost, err := plant(map[string]string{index: "[x](x.md)", "docs/x.md": "", "docs/y.md": "",
		"docs/adr/0001-z.md": ""})
	if err != nil {
		t.Fatal(err)
	}
	if faults := checkIndex(lost); len(faults) != 1 || !strings.Contains(faults[0], "docs/y.md") {
		t.Errorf("faults of a page that is lost are %q", faults)
	}
	if faults := checkNamedFiles(planted); len(faults) != 1 || !strings.Contains(faults[0], "fsm/gone.go") {
		t.Errorf("faults of an invented file are %q", faults)
	}
	faults := checkReasons("require (\n\ta.b/c v1\n\ta.b/d v1 // indirect\n)\n",
		"| module | why |\n|---|---|\n| a.b/d | x |\n")
	if len(faults) != 2 || !strings.Contains(faults[0], "a.b/d") || !strings.Contains(faults[1], "a.b/c") {
		t.Errorf("faults of missing reasons are %q", faults)
	}
}
