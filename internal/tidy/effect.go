package tidy

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

// A measure is one figure of what the structure costs its readers. None has a cap, which types and packages would grow
// up to: it is compared with its previous value (effect.txt), and fails when it rises.
type measure struct {
	name  string
	value int
	// top are the places with the largest share of it, in descending order.
	top []string
}

// maxTop is how many places a measure names.
const maxTop = 5

// measures returns the figures of a tree, in the order in which they are shown.
func measures(t *tree) []measure {
	lines, files, exported, long, words := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	methods := map[string]int{}
	for _, f := range t.files {
		if f.test() || f.generated || f.planted() || beneath(f.dir(), "test") {
			continue
		}
		lines[f.dir()] += bytes.Count(f.text, []byte("\n"))
		files[f.dir()]++
		for _, d := range f.syntax.Decls {
			exported[f.dir()] += exportedNames(d)
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if name, _, is := strings.Cut(functionName(fn), "."); is {
				methods[f.dir()+"."+name]++
			}
			if n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1; n > functionReported {
				long[f.dir()+"."+functionName(fn)] = n
			}
		}
	}
	for _, p := range t.paths {
		if path.Ext(p) == ".md" && !hidden(p) {
			if text, err := t.read(p); err == nil {
				words[p] = len(bytes.Fields(text))
			}
		}
	}
	all := []measure{
		{"lines of product code", sum(lines), top(lines)},
		{"words of documentation", sum(words), top(words)},
		{"files of the largest package", most(files), top(files)},
		{"exported names of the largest package", most(exported), top(exported)},
		{"methods of the largest type", most(methods), top(methods)},
		{fmt.Sprintf("functions of more than %d lines", functionReported), len(long), top(long)},
	}
	goCount, markdown := countDialect(t)
	all = append(all, goCount.measure(), markdown.measure())
	for _, whole := range [][2]string{{"fsm", "Machine"}, {"cluster", "Node"}} {
		holders := holdersOf(t, whole[0], whole[1])
		reach := map[string]int{whole[1]: methods[whole[0]+"."+whole[1]]}
		for _, h := range holders {
			reach[h] = methods[whole[0]+"."+h]
		}
		all = append(all, measure{fmt.Sprintf("types of %s that hold *%s", whole[0], whole[1]), len(holders),
			topOf(reach, holders)},
			measure{fmt.Sprintf("methods in effect of %s.%s", whole[0], whole[1]), sum(reach), top(reach)})
	}
	return all
}

// holdersOf lists the struct types of a package with a field that points to one of its types.
func holdersOf(t *tree, dir, name string) (holders []string) {
	for _, f := range t.files {
		if f.dir() != dir || f.test() || f.generated || f.planted() {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			body, ok := spec.Type.(*ast.StructType)
			if ok && slices.ContainsFunc(body.Fields.List, func(field *ast.Field) bool {
				star, ok := field.Type.(*ast.StarExpr)
				if !ok {
					return false
				}
				to, ok := star.X.(*ast.Ident)
				return ok && to.Name == name
			}) {
				holders = append(holders, spec.Name.Name)
			}
			return true
		})
	}
	slices.Sort(holders)
	return holders
}

// exportedNames counts the exported names that a declaration adds to its package, without methods.
func exportedNames(d ast.Decl) (n int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			n++
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func most(counts map[string]int) (n int) {
	for _, c := range counts {
		n = max(n, c)
	}
	return n
}

// top names the places with the greatest counts.
func top(counts map[string]int) []string {
	return topOf(counts, slices.Collect(maps.Keys(counts)))
}

func topOf(counts map[string]int, names []string) []string {
	return firstOf(counts, names, maxTop)
}

// topMostOf names the places with the greatest counts, up to most.
func topMostOf(counts map[string]int, most int) []string {
	return firstOf(counts, slices.Collect(maps.Keys(counts)), most)
}

func firstOf(counts map[string]int, names []string, most int) (places []string) {
	names = slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), most)] {
		places = append(places, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return places
}

// checkMeasures compares figures with those on record, a line each: its value, a tab, its name.
func checkMeasures(all []measure, recorded string) (faults []string) {
	were := map[string]int{}
	for line := range strings.Lines(recorded) {
		var n int
		value, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if _, err := fmt.Sscan(value, &n); err != nil {
			faults = append(faults, fmt.Sprintf("effect.txt: %q is not a figure with a name", strings.TrimSpace(line)))
		}
		were[name] = n
	}
	for _, m := range all {
		was, known := were[m.name]
		delete(were, m.name)
		switch {
		case !known:
			faults = append(faults, fmt.Sprintf("%s: no figure is on record, it is %d", m.name, m.value))
		case m.value > was:
			faults = append(faults, fmt.Sprintf("%s rose from %d to %d: the most are %s", m.name, was, m.value,
				strings.Join(m.top, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(were)) {
		faults = append(faults, name+" is no longer measured: remove it from effect.txt")
	}
	return faults
}

// On record, a size in lines or words is rounded up to a multiple of sizeStep, and a figure of dialect to one of
// dialectStep, so that a few lines are not a rise.
const (
	sizeStep    = 1_000
	dialectStep = 5
)

// measuresText returns the text of the record.
func measuresText(all []measure) string {
	var b strings.Builder
	for _, m := range all {
		value := m.value
		switch word, _, _ := strings.Cut(m.name, " "); word {
		case "lines", "words":
			value = (value + sizeStep - 1) / sizeStep * sizeStep
		case "habits":
			value = (value + dialectStep - 1) / dialectStep * dialectStep
		}
		fmt.Fprintf(&b, "%d\t%s\n", value, m.name)
	}
	return b.String()
}
