package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// planted reports whether a file holds a bug of test/bite: named plant_<name>.go, and built with the tag plant_<name>
// alone. It is not part of any other build, so the rules on what code does do not apply to it.
func (f *file) planted() bool {
	name := path.Base(f.path)
	return strings.HasPrefix(name, "plant_") && !f.test() && constraint(f) == strings.TrimSuffix(name, ".go")
}

// constraint returns the text after //go:build, "" if there is none.
func constraint(f *file) string {
	for _, group := range f.syntax.Comments {
		if group.Pos() > f.syntax.Package {
			break
		}
		for _, c := range group.List {
			if expr, ok := strings.CutPrefix(c.Text, "//go:build "); ok {
				return expr
			}
		}
	}
	return ""
}

// checkPlants keeps the bugs of test/bite out of every build without their tag: they are in separate files, no other
// file depends on their tags, and their substitutes in a normal build do nothing.
func checkPlants(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		switch {
		case f.planted():
			continue
		case strings.HasPrefix(path.Base(f.path), "plant_") && !f.test():
			faults = append(faults, fmt.Sprintf(
				"%s: a plant is built with one tag, which is the file's name, not with %q",
				f.path, constraint(f)))
		case strings.Contains(constraint(f), "plant_"):
			faults = append(faults, fmt.Sprintf("%s: built by the tag of a plant, and no plant: %s", f.path,
				constraint(f)))
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			switch receiver, _, _ := strings.Cut(functionName(fn), "."); {
			case receiver == "plants":
				faults = append(faults, t.at(fn.Pos())+": a plant in a normal build: "+functionName(fn)+
					" belongs into a file plant_*.go")
			case receiver == "sound" && !idle(fn.Body):
				faults = append(faults, t.at(fn.Pos())+": "+functionName(fn)+
					" does something: without its tag a plant does nothing")
			}
		}
	}
	return faults
}

// idle reports whether a body only returns false, 0 or an empty value.
func idle(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return true
	}
	answer, ok := body.List[0].(*ast.ReturnStmt)
	if !ok || len(body.List) > 1 {
		return false
	}
	for _, r := range answer.Results {
		switch r := r.(type) {
		case *ast.Ident:
			if r.Name != "false" && r.Name != "nil" {
				return false
			}
		case *ast.BasicLit:
			if r.Value != "0" {
				return false
			}
		case *ast.CompositeLit:
			if len(r.Elts) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
