package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

func TestFace(t *testing.T) {
	t.Parallel()
	tree, dir := setup(t)
	compiled, err := exports(dir, ".", "./client")
	if err != nil {
		t.Fatal(err)
	}
	root, client, err := faceOf(compiledImporter(tree.fset, compiled))
	if err != nil {
		t.Fatal(err)
	}
	report(t, checkFace(root, client, rootUses(tree), outside))
}

func TestFacePlants(t *testing.T) {
	t.Parallel()
	packages := importerOf{}
	for _, p := range []struct{ path, text string }{
		{module, `package rota
			type Job struct{ State State; hidden Beat }
			func (Job) Lease() (Lease, error) { return Lease{}, nil }
			type State uint8
			const Queued State = 1
			type Lease struct{}
			type Beat struct{}
			func NewLease() Lease { return Lease{} }
			func Beats() Beat { return Beat{} }
			const MaxJobs, MaxBeats = 1, 2`},
		{module + "/client", `package client
			import "` + module + `"
			type client struct{ beat rota.Beat }
			func Jobs() []rota.Job { return nil }
			func beats() rota.Beat { return rota.Beats() }`},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "a.go", p.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if packages[p.path], err = (&types.Config{Importer: packages}).Check(p.path, fset, []*ast.File{file},
			nil); err != nil {
			t.Fatal(err)
		}
	}
	root, client, err := faceOf(packages)
	if err != nil {
		t.Fatal(err)
	}
	faults := checkFace(root, client, map[string]bool{"MaxJobs": true}, []string{"Beats", "Lease", "Gone"})
	want := []string{
		"rota.Beat is in the root package, and no user of the client meets it: move it to the package that needs it, or under internal",
		"rota.Lease is reached from client: strike it out of the list of exceptions",
		"rota.MaxBeats is in the root package, and no user of the client meets it: move it to the package that needs it, or under internal",
		"rota.Gone is gone: strike it out of the list of exceptions",
	}
	if !slices.Equal(faults, want) {
		t.Errorf("faults are %q, want %q", faults, want)
	}
}

// importerOf imports packages that were checked before.
type importerOf map[string]*types.Package

func (i importerOf) Import(path string) (*types.Package, error) { return i[path], nil }
