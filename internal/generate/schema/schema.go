package schema

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Root is one folder of .proto files and how they are compiled.
type Root struct {
	// Import is the folder that import paths start from, and that generated files are written to; relative to the
	// module root.
	Import string
	// Glob finds the files, relative to Import.
	Glob string
	// Services means that the files hold gRPC services.
	Services bool
}

// Roots are all the .proto files of the repository.
var Roots = []Root{
	{Import: "api", Glob: "rota/v1/*.proto", Services: true},
	{Import: ".", Glob: "fsm/fsmpb/*.proto"},
}

// Set is a compiled root.
type Set struct {
	Root Root
	// Names are the files to generate, sorted, relative to Root.Import.
	Names []string
	// Files are Names' descriptors with comments, each after those it imports.
	Files []*descriptorpb.FileDescriptorProto
}

// Compile compiles one root of the module in folder module. A root without files gives an empty set.
func Compile(ctx context.Context, module string, root Root) (Set, error) {
	set := Set{Root: root}
	base := filepath.Join(module, filepath.FromSlash(root.Import))
	found, err := filepath.Glob(filepath.Join(base, filepath.FromSlash(root.Glob)))
	if err != nil {
		return set, fmt.Errorf("find %s: %w", root.Glob, err)
	}
	for _, f := range found {
		name, err := filepath.Rel(base, f)
		if err != nil {
			return set, fmt.Errorf("place %s: %w", f, err)
		}
		set.Names = append(set.Names, filepath.ToSlash(name))
	}
	slices.Sort(set.Names)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{base}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, set.Names...)
	if err != nil {
		return set, fmt.Errorf("compile %s/%s: %w", root.Import, root.Glob, err)
	}
	seen := make(map[string]bool)
	var visit func(protoreflect.FileDescriptor)
	visit = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			visit(f.Imports().Get(i).FileDescriptor)
		}
		set.Files = append(set.Files, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		visit(f)
	}
	return set, nil
}
