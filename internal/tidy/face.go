package tidy

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
)

// outside are the names of the root package that users need although no exported declaration of package client reaches
// them. The list MAY ONLY SHRINK: a name that only nodes need goes to a package under internal.
var outside = []string{
	// For handling errors.
	"ErrorOf", "Malformed", "NotOneOf", "OutOfRange", "Refusef", "RetryAfterOf", "TooLong", "TooMany",
	// For checking ids and settings, before a call and in completions.
	"CheckID", "CheckJobRef", "CheckMeta", "CheckNodeID", "CheckNodeIDBytes", "ValidID", "ParseDuration",
	"ClusterModeNames", "EventKindNames", "JobStateNames", "ServiceTierNames",
	"ClusterKeys", "PolicyDocs", "PolicyKeys", "Presets", "TenantKeys",
	// Printed as JSON by the command line.
	"AuditDifference", "AuditReport", "JobPage", "SnapshotInfo", "WorkflowPage",
	// Values of a field that is text or a number.
	"AnyLife", "BackpressureNone", "BackpressureRefuse", "BackpressureThrottle",
}

// checkFace restricts the root package to what users of the client need: the types that the exported declarations of
// client reach, the functions that return one of them first, the constants of such a type, and the limits that the
// package itself checks (used).
func checkFace(root, client *types.Package, used map[string]bool, except []string) []string {
	reached := reach(root, client)
	var faults []string
	for _, name := range root.Scope().Names() {
		o := root.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		listed := slices.Contains(except, name)
		switch met := meets(o, reached, used); {
		case met && listed:
			faults = append(faults, "rota."+name+" is reached from client: strike it out of the list of exceptions")
		case !met && !listed:
			faults = append(faults, "rota."+name+" is in the root package, and no user of the client meets it: "+
				"move it to the package that needs it, or under internal")
		}
	}
	for _, name := range except {
		if root.Scope().Lookup(name) == nil {
			faults = append(faults, "rota."+name+" is gone: strike it out of the list of exceptions")
		}
	}
	return faults
}

func meets(o types.Object, reached map[*types.TypeName]bool, used map[string]bool) bool {
	ofReached := func(t types.Type) bool {
		named, ok := types.Unalias(t).(*types.Named)
		return ok && named.Obj().Pkg() == o.Pkg() && (reached[named.Obj()] || !named.Obj().Exported())
	}
	switch o := o.(type) {
	case *types.TypeName:
		return reached[o]
	case *types.Func:
		results := o.Signature().Results()
		return results.Len() > 0 && ofReached(results.At(0).Type())
	case *types.Const:
		return ofReached(o.Type()) || used[o.Name()]
	}
	return false
}

// reach returns the types of the root package that the exported declarations of client reach: in signatures, and in
// exported fields and methods of their types.
func reach(root, client *types.Package) map[*types.TypeName]bool {
	reached, seen := map[*types.TypeName]bool{}, map[types.Type]bool{}
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			walk(types.Unalias(t))
		case *types.Named:
			for arg := range t.TypeArgs().Types() {
				walk(arg)
			}
			if p := t.Obj().Pkg(); p != root && p != client {
				return
			}
			reached[t.Obj()] = true
			for m := range t.Methods() {
				if m.Exported() {
					walk(m.Type())
				}
			}
			walk(t.Underlying())
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					walk(f.Type())
				}
			}
		case *types.Signature:
			walk(t.Params())
			walk(t.Results())
		case *types.Tuple:
			for v := range t.Variables() {
				walk(v.Type())
			}
		case *types.Interface:
			for m := range t.Methods() {
				walk(m.Type())
			}
		case *types.Map:
			walk(t.Key())
			walk(t.Elem())
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
			walk(t.Elem())
		}
	}
	for _, name := range client.Scope().Names() {
		if o := client.Scope().Lookup(name); o.Exported() {
			walk(o.Type())
		}
	}
	return reached
}

// rootUses returns the names that the sources of the root package use, other than where they declare them.
func rootUses(t *tree) map[string]bool {
	used := map[string]bool{}
	for _, f := range t.files {
		if f.dir() != "." || f.test() {
			continue
		}
		declared := map[*ast.Ident]bool{}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, id := range n.Names {
					declared[id] = true
				}
			case *ast.Ident:
				if !declared[n] {
					used[n.Name] = true
				}
			}
			return true
		})
	}
	return used
}

// faceOf imports the compiled forms of the root package and of client.
func faceOf(imports types.Importer) (root, client *types.Package, err error) {
	if client, err = imports.Import(module + "/client"); err != nil {
		return nil, nil, fmt.Errorf("import client: %w", err)
	}
	root, err = imports.Import(module)
	return root, client, err
}
