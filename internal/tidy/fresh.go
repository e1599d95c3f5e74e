package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// methodNames returns the full names of the methods in the generated gRPC files of a folder, such as
// /rota.v1.Jobs/Submit, sorted.
func methodNames(t *tree, dir string) ([]string, error) {
	var names []string
	for _, f := range t.files {
		if f.dir() != dir || !strings.HasSuffix(f.path, "_grpc.pb.go") {
			continue
		}
		for _, d := range f.syntax.Decls {
			constants, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range constants.Specs {
				v, ok := s.(*ast.ValueSpec)
				if !ok || len(v.Names) != 1 || len(v.Values) != 1 ||
					!strings.HasSuffix(v.Names[0].Name, "_FullMethodName") {
					continue
				}
				lit, ok := v.Values[0].(*ast.BasicLit)
				if !ok {
					continue
				}
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", t.at(lit.Pos()), err)
				}
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
