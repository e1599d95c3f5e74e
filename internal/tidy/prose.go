package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"regexp"
	"slices"
	"strings"
)

// checkDocs requires a doc.go in every package, whose comment ends with what the package never does.
func checkDocs(t *tree) []string {
	var faults []string
	for _, dir := range t.dirs() {
		i := slices.IndexFunc(t.files, func(f *file) bool { return f.path == path.Join(dir, "doc.go") })
		if i < 0 {
			faults = append(faults, dir+" has no doc.go: say what the package is for and what it never does")
			continue
		}
		doc := t.files[i].syntax.Doc.Text()
		paragraphs := strings.Split(strings.TrimSpace(doc), "\n\n")
		last := paragraphs[len(paragraphs)-1]
		if !slices.Contains(strings.FieldsFunc(last, func(r rune) bool { return r < 'a' || r > 'z' }), "never") {
			faults = append(faults, t.files[i].path+
				": the package comment must end with a paragraph on what the package never does")
		}
	}
	return faults
}

// nameless are names of folders that do not describe their content.
var nameless = []string{"util", "utils", "common", "helper", "helpers", "misc"}

func checkFolders(t *tree) []string {
	var faults []string
	seen := map[string]bool{}
	for _, p := range t.paths {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if !seen[dir] && slices.Contains(nameless, strings.ToLower(path.Base(dir))) {
				faults = append(faults, dir+": a folder is an idea: give it the idea's name")
			}
			seen[dir] = true
		}
	}
	return faults
}

// card lists the names that newcomers expect at the top of the repository.
var card = []string{"cmd/", "fsm/", "cluster/", "sched/", "transport/", "snapshot/", "test/jepsen-lite/",
	"docker-compose.yml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".ci/run"}

func checkCard(t *tree) []string {
	var faults []string
	for _, want := range card {
		if !slices.ContainsFunc(t.paths, func(p string) bool {
			return p == want || strings.HasSuffix(want, "/") && strings.HasPrefix(p, want)
		}) {
			faults = append(faults, want+" is missing")
		}
	}
	return faults
}

// talk matches text that must not be in a repository: names of the machine it was made on, hosts that modules were
// fetched from, and conversation between its makers. The patterns are assembled from pieces so that this file does not
// contain them.
var talk = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`(^|[^a-z0-9_.-])/wo` + `rk/`, `/bash_jo` + `bs`, `(^|[^a-z0-9_.-])/ho` + `me/[a-z]`,
	`(^|[^a-z0-9_.-])/Us` + `ers/[a-z]`,
	`proxy\.gol` + `ang\.org`, `sum\.gol` + `ang\.org`, `gopro` + `xy\s*=`, `artif` + `actory`,
	`\bcla` + `ude\b`, `anthr` + `opic`, `chatg` + `pt`, `language mo` + `del`, `system pro` + `mpt`,
	`co-authored` + `-by`, `sub-?ag` + `ent\b`, `\bthe lead (w` + `ill|must|should)\b`, `founder-eng` + `ineer`,
}, "|"))

// checkTalk reads every text file. strangers are further strings that no file may hold, such as the folder that
// contains the repository.
func checkTalk(t *tree, strangers ...string) []string {
	var faults []string
	for _, p := range t.paths {
		text, err := t.read(p)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", p, err))
			continue
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		for i, line := range strings.Split(string(text), "\n") {
			found := talk.FindString(line)
			for _, s := range strangers {
				if found == "" && s != "" && strings.Contains(line, s) {
					found = s
				}
			}
			if found != "" {
				faults = append(faults, fmt.Sprintf(
					"%s:%d: %q belongs to a machine or to talk, not into the repository", p, i+1, found))
			}
		}
	}
	return faults
}

// dialect are outdated words, with their replacements. They are assembled from pieces, like those of talk.
var dialect = []struct{ old, plain string }{
	{"who" + "m", "which, or who at the end"}, {"for want" + " of", "because there is no"},
	{"part" + "ed by", "separated by"},
}

// checkDialect reads sources, schemas and documents, but not generated files.
func checkDialect(t *tree) []string {
	var faults []string
	for _, p := range t.paths {
		if !prose(p) || strings.HasSuffix(p, ".pb.go") || path.Ext(p) == "" {
			continue
		}
		text, err := t.read(p)
		if err != nil {
			return append(faults, err.Error())
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, d := range dialect {
				if at := strings.Index(line, d.old); at >= 0 && !(at > 0 && word(line[at-1])) &&
					!(at+len(d.old) < len(line) && word(line[at+len(d.old)])) {
					faults = append(faults, fmt.Sprintf("%s:%d: %q: write %s", p, i+1, d.old, d.plain))
				}
			}
		}
	}
	return faults
}

// checkSkips requires a reason from every test that may be skipped.
func checkSkips(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		if !f.test() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch sel.Sel.Name {
			case "SkipNow":
				faults = append(faults, t.at(call.Pos())+": a skipped test needs a reason: call Skip with a sentence")
			case "Skip", "Skipf":
				receiver, ok := sel.X.(*ast.Ident)
				if !ok || !slices.Contains([]string{"t", "b", "f", "tb"}, receiver.Name) {
					return true
				}
				if len(call.Args) == 0 || emptyLiteral(call.Args[0]) {
					faults = append(faults, t.at(call.Pos())+": a skipped test needs a reason: write a sentence")
				}
			}
			return true
		})
	}
	return faults
}

func emptyLiteral(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && len(strings.Trim(lit.Value, "\"` ")) == 0
}

// checkFormat requires every source to be formatted by gofmt.
func checkFormat(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		if neat, err := format.Source(f.text); err != nil || !bytes.Equal(neat, f.text) {
			faults = append(faults, f.path+" is not formatted: run `make fmt`")
		}
	}
	return faults
}
