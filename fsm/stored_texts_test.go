package fsm

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// storing are the files whose refusals a row can store: the reason why a schedule, a batch or a webhook waits, and the
// jobs that a plan did not change. The digest covers these rows, so nodes of two binaries with different texts diverge.
// An empty list of functions means the whole file.
var storing = map[string][]string{"admission.go": nil, "admit.go": nil, "cancel.go": nil, "change.go": nil,
	"deleted.go": nil, "ended.go": nil, "internal/authz/access.go": nil, "internal/authz/judge.go": nil,
	"internal/keys/keyring.go": nil, "internal/plans/plan_step.go": nil, "internal/plans/plan_verbs.go": nil,
	"internal/refuse/admit.go": nil, "internal/unique/unique.go": nil, "plan_apply.go": nil, "queueing.go": nil,
	"tenants.go": nil, "throttle.go": nil, "workflow_open.go": {"cancelWorkflow", "retryWorkflow"},
	"../shape.go": {"checkPayload"}}

// recordedAs has the names under which texts of some files are recorded: those that they were in at first.
var recordedAs = map[string]string{"plan_apply.go": "plan_verbs.go"}

// TestStoredTexts_stay: no text of a refusal that a row can store changes or disappears. -update records new ones.
func TestStoredTexts_stay(t *testing.T) {
	t.Parallel()
	var now []string
	for name, functions := range storing {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); functions != nil && !(ok && slices.Contains(functions, f.Name.Name)) {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if text, ok := refusalText(n); ok {
					now = append(now, cmp.Or(recordedAs[filepath.Base(name)], filepath.Base(name))+" "+text)
				}
				return true
			})
		}
	}
	slices.Sort(now)
	now = slices.Compact(now)
	path := filepath.Join("testdata", "stored_texts.txt")
	recorded, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	before := strings.FieldsFunc(string(recorded), func(r rune) bool { return r == '\n' })
	for _, text := range before {
		if _, found := slices.BinarySearch(now, text); !found {
			t.Errorf("%s: no refusal has this text now, but rows of older binaries hold it: keep it, or make the new one a rule of a new version", text)
		}
	}
	if *update {
		all := slices.Concat(before, now)
		slices.Sort(all)
		if err := os.WriteFile(path, []byte(strings.Join(slices.Compact(all), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if len(now) > len(before) {
		t.Errorf("%d texts are not recorded: run go test ./fsm -run TestStoredTexts -update", len(now)-len(before))
	}
}

// refusalText returns the format of a call that makes a refusal, quoted.
func refusalText(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false
	}
	name, at := "", 0
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	switch name {
	case "Refusef":
		at = 2
	case "Exhausted":
		at = 1
	default:
		return "", false
	}
	if len(call.Args) <= at {
		return "", false
	}
	text, ok := literal(call.Args[at])
	return strconv.Quote(text), ok
}

// literal returns the value of a string literal, or of a sum of such.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, also := literal(e.Y)
		return a + b, ok && also
	}
	return "", false
}
