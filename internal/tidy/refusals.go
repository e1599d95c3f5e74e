package tidy

import (
	"go/ast"
	"slices"
	"strings"
)

// placeless are the kinds of refusals without a field: they concern the whole call, or rota itself.
var placeless = []string{"KindInternal", "KindTimeout", "KindUnavailable", "KindNone", "KindUnauthenticated"}

// checkRefusals requires every refusal to name the field or the object that is refused, which calling programs depend
// on: the second argument of Refusef, or Subject.
func checkRefusals(t *tree) []string {
	var faults []string
	for _, f := range t.files {
		if f.test() || f.generated || strings.HasPrefix(f.path, "test/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			bare := false
			switch n := n.(type) {
			case *ast.CallExpr:
				bare = lastName(n.Fun) == "Refusef" && len(n.Args) > 1 && placed(n.Args[0]) && emptyLiteral(n.Args[1])
			case *ast.CompositeLit:
				kind, subject := field(n, "Kind"), field(n, "Subject")
				bare = lastName(n.Type) == "Error" && kind != nil && placed(kind) &&
					(subject == nil || emptyLiteral(subject))
			}
			if bare {
				faults = append(faults, t.at(n.Pos())+
					": a refusal that names no field: say which one, or what it is about")
			}
			return true
		})
	}
	return faults
}

// placed reports whether an expression names a kind whose refusals have a field.
func placed(kind ast.Expr) bool {
	name := lastName(kind)
	return strings.HasPrefix(name, "Kind") && !slices.Contains(placeless, name)
}

// lastName returns the name at the end of an expression such as rota.Refusef.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

// field returns the value that a struct literal sets a field to, nil if it does not.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok && lastName(pair.Key) == name {
			return pair.Value
		}
	}
	return nil
}
