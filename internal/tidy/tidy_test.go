package tidy

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	// The generated packages register their descriptors.
	_ "github.com/rotasched/rota/api/rota/v1"
	_ "github.com/rotasched/rota/fsm/fsmpb"

	"github.com/rotasched/rota/internal/generate/schema"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

var update = flag.Bool("update", false, "update deps.txt")

// house reads the repository once for all tests; they only read it.
var house = sync.OnceValues(func() (*tree, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return repository(root)
})

func setup(t *testing.T) (*tree, string) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := house()
	if err != nil {
		t.Fatal(err)
	}
	return tree, root
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

func TestRepository(t *testing.T) {
	t.Parallel()
	tree, root := setup(t)
	for name, check := range map[string]func() []string{
		"sources_parse":                  func() []string { return tree.broken },
		"imports_follow_the_table":       func() []string { return checkRooms(tree) },
		"the_core_is_pure":               func() []string { return checkPure(tree) },
		"every_package_says_never":       func() []string { return checkDocs(tree) },
		"folders_are_ideas":              func() []string { return checkFolders(tree) },
		"skips_say_why":                  func() []string { return checkSkips(tree) },
		"markup_is_no_code":              func() []string { return checkMarkup(tree) },
		"refusals_name_a_field":          func() []string { return checkRefusals(tree) },
		"sources_are_formatted":          func() []string { return checkFormat(tree) },
		"no_talk_and_no_machine":         func() []string { return checkTalk(tree, strangers(root)...) },
		"words_are_plain":                func() []string { return checkDialect(tree) },
		"plants_are_in_no_build":         func() []string { return checkPlants(tree) },
		"the_card_is_complete":           func() []string { return checkCard(tree) },
		"the_core_is_pure_in_its_types":  func() []string { return typed(t, tree, root) },
		"services_are_generated_anew":    func() []string { return staleServices(t, tree, root) },
		"descriptors_are_generated_anew": func() []string { return staleDescriptors(t, root) },
		"sizes": func() []string {
			reports, faults := checkSizes(tree, largeFiles, largeFunctions)
			for _, r := range reports {
				t.Log(r)
			}
			return faults
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report(t, check())
		})
	}
}

// strangers returns strings of this machine: the folder that contains the repository, unless it is a short one, and the
// hosts that modules come from here.
func strangers(root string) []string {
	var found []string
	if strings.Count(filepath.ToSlash(root), "/") > 1 {
		found = append(found, root)
	}
	out, err := exec.Command("go", "env", "GO"+"PROXY").Output()
	if err != nil {
		return found
	}
	for _, word := range strings.FieldsFunc(strings.TrimSpace(string(out)),
		func(r rune) bool { return r == ',' || r == '|' }) {
		if u, err := url.Parse(word); err == nil && u.Hostname() != "" && u.Hostname() != "localhost" {
			found = append(found, u.Hostname())
		}
	}
	return found
}

func typed(t *testing.T, tree *tree, root string) []string {
	t.Helper()
	compiled, err := exports(root, ".", "./sched/...", "./fsm/...")
	if err != nil {
		t.Fatal(err)
	}
	return checkTyped(tree, compiled)
}

// staleDescriptors compiles the .proto files and compares them with those in the generated packages.
func staleDescriptors(t *testing.T, root string) []string {
	t.Helper()
	var faults []string
	for _, r := range schema.Roots {
		set, err := schema.Compile(context.Background(), root, r)
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Names) == 0 {
			t.Fatalf("no .proto file in %s/%s", r.Import, r.Glob)
		}
		for _, f := range set.Files {
			if !slices.Contains(set.Names, f.GetName()) {
				continue
			}
			embedded, err := protoregistry.GlobalFiles.FindFileByPath(f.GetName())
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s is not generated, or its package is not imported here: %v",
					f.GetName(), err))
				continue
			}
			if !sameDescriptor(f, protodesc.ToFileDescriptorProto(embedded)) {
				faults = append(faults, f.GetName()+" changed since its .pb.go was generated: run `make generate`")
			}
		}
	}
	return faults
}

// sameDescriptor compares the parts on which the code depends: no comments and positions.
func sameDescriptor(a, b *descriptorpb.FileDescriptorProto) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	a.SourceCodeInfo, b.SourceCodeInfo = nil, nil
	return proto.Equal(a, b)
}

// staleServices compares the methods of the .proto files with the generated ones.
func staleServices(t *testing.T, tree *tree, root string) []string {
	t.Helper()
	var faults []string
	for _, r := range schema.Roots {
		set, err := schema.Compile(context.Background(), root, r)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, f := range set.Files {
			for _, s := range f.GetService() {
				for _, m := range s.GetMethod() {
					want = append(want, "/"+f.GetPackage()+"."+s.GetName()+"/"+m.GetName())
				}
			}
		}
		slices.Sort(want)
		got, err := methodNames(tree, filepath.ToSlash(filepath.Join(r.Import, filepath.Dir(r.Glob))))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(want, got) {
			faults = append(faults, fmt.Sprintf("%s: services are %v, generated are %v: run `make generate`", r.Glob,
				want, got))
		}
	}
	return faults
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	_, root := setup(t)
	// The client's list has the packages that every program that imports it links: none that only a server needs.
	for of, list := range map[string]string{"cmd/rota": "deps.txt", "client": "deps_client.txt"} {
		now, err := dependencies(root, of)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(list, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		recorded, err := os.ReadFile(list)
		if err != nil {
			t.Fatalf("%v: run `go test ./internal/tidy -run TestDependencies -update`", err)
		}
		faults := checkDependencies(of, now, strings.Fields(string(recorded)))
		report(t, faults)
		if len(faults) > 0 {
			t.Error("if that is meant: `go test ./internal/tidy -run TestDependencies -update`, and a line in docs/adr/0004-dependencies.md")
		}
	}
}
