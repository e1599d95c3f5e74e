package tidy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// exports asks the go command for the compiled form of packages and all that they import: import path → file. They come
// from the build cache.
func exports(dir string, patterns ...string) (map[string]string, error) {
	cmd := exec.Command("go", append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Export"},
		patterns...)...)
	var complaint bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w: %s", err, complaint.String())
	}
	found := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		if p.Export != "" {
			found[p.ImportPath] = p.Export
		}
	}
}

// compiledImporter imports packages from the result of exports.
func compiledImporter(fset *token.FileSet, compiled map[string]string) types.Importer {
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		name, ok := compiled[path]
		if !ok {
			return nil, fmt.Errorf("package %s is not compiled", path)
		}
		return os.Open(name)
	})
}

// checkTyped type-checks the sources of the pure rooms, package by package, and finds faults that need types: ranges
// over maps, floats in the state machine, and products of floats that are not rounded separately.
func checkTyped(t *tree, compiled map[string]string) []string {
	var faults []string
	imports := compiledImporter(t.fset, compiled)
	judged := pureFiles(t)
	packages := map[string][]*file{} // with the generated files, which are not checked
	var order []string
	for _, f := range t.files {
		if f.test() || !(f.dir() == "." || beneath(f.dir(), "sched") || beneath(f.dir(), "fsm")) {
			continue
		}
		if packages[f.dir()] == nil {
			order = append(order, f.dir())
		}
		packages[f.dir()] = append(packages[f.dir()], f)
	}
	for _, dir := range order {
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: imports, Error: func(err error) {
			faults = append(faults, fmt.Sprintf("%s does not type-check: %v", dir, err))
		}}
		var syntax []*ast.File
		for _, f := range packages[dir] {
			syntax = append(syntax, f.syntax)
		}
		// Errors went to config.Error; everything else is checked.
		_, _ = config.Check(dir, t.fset, syntax, info)
		for _, f := range packages[dir] {
			if !slices.Contains(judged, f) {
				continue
			}
			faults = append(faults, mapOrder(t, f, info)...)
			switch {
			case beneath(dir, "fsm"):
				faults = append(faults, floats(t, f, info)...)
			case beneath(dir, "sched"):
				faults = append(faults, fusedProducts(t, f, info)...)
			}
		}
	}
	return faults
}

// mapOrder reports where the order of a map can be visible: a range over a map, and maps.Keys, Values and All, unless a
// call that sorts uses them directly, or the next statement sorts the slice that they are appended to.
func mapOrder(t *tree, f *file, info *types.Info) []string {
	var faults []string
	sorted := map[ast.Expr]bool{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			for i := range max(0, len(n.List)-1) {
				if appended := sortedNext(n.List[i], n.List[i+1], info); appended != nil {
					sorted[appended] = true
				}
			}
		case *ast.RangeStmt:
			if isMap(info.TypeOf(n.X)) {
				faults = append(faults, t.at(n.Pos())+": a range over a map: its order differs from node to node; "+
					"walk a sorted slice or an ordered tree")
			}
		case *ast.CallExpr:
			path, name := callee(n, info)
			if path == "slices" && strings.HasPrefix(name, "Sorted") && len(n.Args) > 0 {
				sorted[n.Args[0]] = true
			}
			if path == "maps" && (name == "Keys" || name == "Values" || name == "All") && !sorted[n] {
				faults = append(faults, fmt.Sprintf("%s: maps.%s in map order: wrap it in slices.Sorted at once",
					t.at(n.Pos()), name))
			}
			if path == "reflect" && (name == "MapRange" || name == "MapKeys") {
				faults = append(faults, t.at(n.Pos())+": reflection walks a map in its own order")
			}
		}
		return true
	})
	return faults
}

// sortedNext returns what a statement appends to a slice that the next statement sorts, nil for other statements.
func sortedNext(appends, sorts ast.Stmt, info *types.Info) ast.Expr {
	assign, ok := appends.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return nil
	}
	list, ok := assign.Lhs[0].(*ast.Ident)
	call, isCall := assign.Rhs[0].(*ast.CallExpr)
	next, isNext := sorts.(*ast.ExprStmt)
	if !ok || !isCall || !isNext || len(call.Args) != 2 {
		return nil
	}
	sort, ok := next.X.(*ast.CallExpr)
	if !ok || len(sort.Args) != 1 {
		return nil
	}
	path, name := callee(call, info)
	sortPath, sortName := callee(sort, info)
	of, ok := sort.Args[0].(*ast.Ident)
	if !ok || of.Name != list.Name || path+"."+name != "slices.AppendSeq" || sortPath+"."+sortName != "slices.Sort" {
		return nil
	}
	return call.Args[1]
}

// isMap looks through named types, and through the constraint of a type parameter.
func isMap(typ types.Type) bool {
	if typ == nil {
		return false
	}
	if p, ok := types.Unalias(typ).(*types.TypeParam); ok {
		constraint, ok := p.Constraint().Underlying().(*types.Interface)
		if !ok {
			return false
		}
		for i := range constraint.NumEmbeddeds() {
			if u, ok := constraint.EmbeddedType(i).(*types.Union); ok {
				for j := range u.Len() {
					if isMap(u.Term(j).Type()) {
						return true
					}
				}
			} else if isMap(constraint.EmbeddedType(i)) {
				return true
			}
		}
		return false
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}

// callee returns the package path and the name of the function that is called.
func callee(call *ast.CallExpr, info *types.Info) (path, name string) {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	var id *ast.Ident
	switch x := fun.(type) {
	case *ast.Ident:
		id = x
	case *ast.SelectorExpr:
		id = x.Sel
	default:
		return "", ""
	}
	if o := info.Uses[id]; o != nil && o.Pkg() != nil {
		return o.Pkg().Path(), o.Name()
	}
	return "", ""
}

// floats reports every float or complex number: literals, types, values.
func floats(t *tree, f *file, info *types.Info) []string {
	var faults []string
	lines := map[string]bool{} // one report a line is enough
	fault := func(n ast.Node, what string) {
		where := t.at(n.Pos())
		if !lines[where] {
			lines[where] = true
			faults = append(faults, where+": "+what+" in the state machine: use integers with a unit")
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && (lit.Kind == token.FLOAT || lit.Kind == token.IMAG) {
			fault(lit, "the literal "+lit.Value)
		}
		if id, ok := n.(*ast.Ident); ok {
			if o := info.Defs[id]; o != nil && isFloat(o.Type()) {
				fault(id, id.Name+" is a float")
			}
		}
		if e, ok := n.(ast.Expr); ok {
			if v, ok := info.Types[e]; ok && isFloat(v.Type) {
				fault(e, "a float")
			}
		}
		return true
	})
	return faults
}

func isFloat(typ types.Type) bool {
	if typ == nil {
		return false
	}
	basic, ok := typ.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsFloat|types.IsComplex) != 0
}

// fusedProducts reports float products that a compiler may fuse with a later addition. The language allows that across
// statements and, once inlined, across functions; only an explicit conversion forbids it. So every product must be the
// direct operand of float64(…), except one that is itself a factor or a dividend.
func fusedProducts(t *tree, f *file, info *types.Info) []string {
	var faults []string
	rounded := map[ast.Expr]bool{}
	mark := func(e ast.Expr) {
		rounded[ast.Unparen(e)] = true
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if v, ok := info.Types[n.Fun]; ok && v.IsType() && isFloat(v.Type) && len(n.Args) == 1 {
				mark(n.Args[0])
			}
		case *ast.AssignStmt:
			if n.Tok == token.MUL_ASSIGN && isFloat(info.TypeOf(n.Lhs[0])) {
				faults = append(faults, t.at(n.Pos())+": *= leaves a float product unrounded: write x = float64(x * y)")
			}
		case *ast.BinaryExpr:
			if n.Op == token.MUL || n.Op == token.QUO {
				mark(n.X)
				mark(n.Y)
			}
			v := info.Types[n]
			if n.Op == token.MUL && v.Value == nil && isFloat(v.Type) && !rounded[n] {
				faults = append(faults, t.at(n.Pos())+": a float product that is not rounded on its own may be fused "+
					"with an addition on some processors: write float64(a * b)")
			}
		}
		return true
	})
	return faults
}
