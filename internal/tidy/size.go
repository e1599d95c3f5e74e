package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"strings"
)

// Sizes in lines: above the first a file or function is reported, above the second it fails. Split by idea, never to
// please a number.
const (
	fileReported, maxFile         = 400, 600
	functionReported, maxFunction = 70, 100
)

// largeFiles and largeFunctions are allowed this many lines. The lists MAY ONLY SHRINK: no line is added, no number
// raised; one that is higher than needed fails too. Keys are paths, and for functions path:name.
var (
	largeFiles     = map[string]int{}
	largeFunctions = map[string]int{}
)

// checkSizes returns the sizes to report and the faults. Tests are reported only.
func checkSizes(t *tree, files, functions map[string]int) (reports, faults []string) {
	usedFiles, usedFunctions := map[string]bool{}, map[string]bool{}
	judge := func(key, where string, lines, reported, most int, test bool, allowed map[string]int, used map[string]bool) {
		limit, listed := allowed[key]
		used[key] = true
		switch {
		case listed && lines < limit:
			faults = append(faults, fmt.Sprintf(
				"%s has %d lines, the list of exceptions allows %d: lower it, or strike it out",
				where, lines, limit))
		case listed && lines == limit && lines > most:
			reports = append(reports, fmt.Sprintf("%s has %d lines (a listed exception)", where, lines))
		case lines > most && !test:
			faults = append(faults, fmt.Sprintf("%s has %d lines, at most %d are allowed: split it by idea", where,
				lines, most))
		case lines > reported:
			reports = append(reports, fmt.Sprintf("%s has %d lines, %d are enough for one idea", where, lines,
				reported))
		}
	}
	for _, f := range t.files {
		if f.generated {
			continue
		}
		lines := bytes.Count(f.text, []byte("\n"))
		judge(f.path, f.path, lines, fileReported, maxFile, f.test(), files, usedFiles)
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			judge(f.path+":"+functionName(fn), t.at(fn.Pos())+" "+functionName(fn), lines,
				functionReported, maxFunction, f.test(), functions, usedFunctions)
		}
	}
	for _, l := range []struct {
		allowed map[string]int
		used    map[string]bool
	}{{files, usedFiles}, {functions, usedFunctions}} {
		for key := range l.allowed {
			if !l.used[key] {
				faults = append(faults, key+" is gone: strike it out of the list of exceptions")
			}
		}
	}
	return reports, faults
}

// functionName returns Name, or Type.Name for a method.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return strings.Join([]string{x.Name, fn.Name.Name}, ".")
		default:
			return fn.Name.Name
		}
	}
}
