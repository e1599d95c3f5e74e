package tidy

import (
	"fmt"
	"go/ast"
	build "go/build/constraint"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// upward is the number of arrows per package that may run from a lower layer of its DESIGN.md to a higher one. The
// numbers may only fall: one that is higher than needed fails too.
var upward = map[string]int{"cluster": 0, "fsm": 0}

// layerLine is a line of a DESIGN.md's list of layers, the highest first:
//
//  1. **verbs**: `submit.go`, `cancel.go`. What one operation does.
var layerLine = regexp.MustCompile(`^\d+\. \*\*[a-z ]+\*\*: ((?:` + "`" + `[a-z0-9_]+\.go` + "`" + `(?:, )?)+)`)

// layersOf reads the list of layers: file → layer, 0 the highest.
func layersOf(design string) (layers map[string]int, faults []string) {
	layers = map[string]int{}
	n := 0
	for line := range strings.Lines(design) {
		m := layerLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for name := range strings.SplitSeq(m[1], ", ") {
			name = strings.Trim(name, "`")
			if _, twice := layers[name]; twice {
				faults = append(faults, name+" is in two layers")
			}
			layers[name] = n
		}
		n++
	}
	return layers, faults
}

// checkLayers checks a package against the layers of its DESIGN.md: every file is in one, and at most allowed arrows
// run upward, from a file to one of a higher layer.
func checkLayers(t *tree, dir, design string, compiled map[string]string, allowed int) []string {
	layers, faults := layersOf(design)
	present := map[string]bool{}
	for _, f := range t.files {
		base := path.Base(f.path)
		if f.dir() == dir && !f.test() && !f.generated && !f.planted() && base != "plants.go" {
			present[base] = true
			if _, listed := layers[base]; !listed {
				faults = append(faults, fmt.Sprintf("%s is in no layer of %s/DESIGN.md", f.path, dir))
			}
		}
	}
	for name := range layers {
		if !present[name] {
			faults = append(faults, fmt.Sprintf("%s/DESIGN.md names %s, which is not there", dir, name))
		}
	}
	up, broken := arrowsUp(t, dir, layers, compiled)
	faults = append(faults, broken...)
	switch {
	case len(up) > allowed:
		faults = append(faults, fmt.Sprintf("%s: %d arrows run upward, %d are allowed:\n\t%s", dir, len(up), allowed,
			strings.Join(up, "\n\t")))
	case len(up) < allowed:
		faults = append(faults, fmt.Sprintf("%s: %d arrows run upward, %d are allowed: lower it", dir, len(up),
			allowed))
	}
	slices.Sort(faults)
	return faults
}

// arrowsUp lists the pairs of files in which the lower uses what the higher declares, each with one name as an example.
func arrowsUp(t *tree, dir string, layers map[string]int, compiled map[string]string) (up, faults []string) {
	var syntax []*ast.File
	for _, f := range t.files {
		if f.dir() == dir && !f.test() && f.builds() {
			syntax = append(syntax, f.syntax)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{
		Error:    func(err error) { faults = append(faults, fmt.Sprintf("%s does not type-check: %v", dir, err)) },
		Importer: compiledImporter(t.fset, compiled),
	}
	pkg, _ := config.Check(dir, t.fset, syntax, info) // errors went to config.Error
	seen := map[string]bool{}
	for id, o := range info.Uses {
		if o.Pkg() != pkg || !o.Pos().IsValid() {
			continue
		}
		from, to := baseOf(t, id), baseOf(t, o)
		a, okA := layers[from]
		b, okB := layers[to]
		if okA && okB && b < a {
			seen[from+" → "+to] = true
		}
	}
	for arrow := range seen {
		up = append(up, arrow)
	}
	slices.Sort(up)
	return up, faults
}

// baseOf returns the name of the file that contains n.
func baseOf(t *tree, n interface{ Pos() token.Pos }) string {
	return path.Base(t.fset.Position(n.Pos()).Filename)
}

// builds reports whether the file is part of a plain build on this machine.
func (f *file) builds() bool {
	for _, word := range []string{"linux", "darwin", "windows"} {
		if strings.HasSuffix(f.path, "_"+word+".go") && runtime.GOOS != word {
			return false
		}
	}
	words := constraint(f)
	if words == "" {
		return true
	}
	expr, err := build.Parse("//go:build " + words)
	return err == nil && expr.Eval(func(tag string) bool {
		return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || strings.HasPrefix(tag, "go1.")
	})
}
