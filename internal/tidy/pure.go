package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// pureRooms must give the same results everywhere: no clock, randomness, I/O, goroutine, lock. The root package is
// among them, because the machine calls its checks.
var pureRooms = []string{"sched", "fsm"}

// pureFiles returns the sources that checkPure and checkTyped check.
func pureFiles(t *tree) []*file {
	var found []*file
	for _, r := range pureRooms {
		found = append(found, t.in(r)...)
	}
	for _, f := range t.files {
		if f.dir() == "." && !f.test() && !f.generated {
			found = append(found, f)
		}
	}
	return slices.DeleteFunc(found, (*file).planted)
}

// generatorFile is the only source that may use a random generator, which must be ChaCha8 seeded by the caller (SPEC
// §7.4).
const generatorFile = "sched/shuffle.go"

// impure are packages of the standard library that no pure room may import, including their subpackages.
var impure = []string{"os", "net", "sync", "math/rand", "crypto/rand", "hash/maphash", "runtime", "syscall", "unsafe",
	"context", "log", "io/fs", "io/ioutil", "plugin", "testing", "embed"}

// impureNames are the parts of allowed packages that read a clock or do I/O.
var impureNames = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Sleep", "Local",
		"LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"math": {"FMA"},
}

// checkPure checks syntax only.
func checkPure(t *tree) []string {
	var faults []string
	for _, f := range pureFiles(t) {
		names := map[string]string{} // the file's name of a package → its path
		for _, imp := range f.syntax.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			name := path[strings.LastIndex(path, "/")+1:]
			if path == "math/rand/v2" {
				name = "rand"
			}
			if imp.Name != nil {
				name = imp.Name.Name
			}
			if name == "." {
				faults = append(faults, t.at(imp.Pos())+": a dot import hides the names used: import by name")
			}
			names[name] = path
			if f.path == generatorFile && path == "math/rand/v2" {
				continue
			}
			for _, p := range impure {
				if beneath(path, p) {
					faults = append(faults, fmt.Sprintf(
						"%s: %s is out of bounds in %s: give what you need as an argument",
						t.at(imp.Pos()), path, f.dir()))
				}
			}
		}
		faults = append(faults, impureSyntax(t, f, names)...)
	}
	return faults
}

func impureSyntax(t *tree, f *file, names map[string]string) []string {
	var faults []string
	fault := func(n ast.Node, what string) { faults = append(faults, t.at(n.Pos())+": "+what) }
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n, "a goroutine in "+f.dir()+": its order would show")
		case *ast.SelectStmt:
			fault(n, "a select in "+f.dir()+": its choice is chance")
		case *ast.ChanType:
			fault(n, "a channel in "+f.dir()+": return data instead")
		case *ast.SendStmt:
			fault(n, "a send in "+f.dir()+": return data instead")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				fault(n, "a receive in "+f.dir()+": take data as an argument")
			}
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			path := names[pkg.Name]
			if slices.Contains(impureNames[path], n.Sel.Name) {
				fault(n, fmt.Sprintf("%s.%s is out of bounds in %s", path, n.Sel.Name, f.dir()))
			}
			if path == "math/rand/v2" && n.Sel.Name != "NewChaCha8" && n.Sel.Name != "ChaCha8" {
				fault(n, "of math/rand/v2 only NewChaCha8 may be used, with the caller's seed")
			}
		}
		return true
	})
	return faults
}
