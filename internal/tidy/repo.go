package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the import path that every package of the repository begins with.
const module = "github.com/rotasched/rota"

// A file is one Go source with its path relative to the module, slashes forward.
type file struct {
	path      string
	text      []byte
	syntax    *ast.File
	generated bool
}

func (f *file) test() bool  { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) dir() string { return path.Dir(f.path) }

// tree is a set of sources to be checked: the repository, or a plant.
type tree struct {
	fset *token.FileSet
	// paths are all files that belong to the repository, sorted.
	paths []string
	// files are the Go sources among them; broken lists those that do not parse.
	files  []*file
	broken []string
	// read returns the content of a path.
	read func(path string) ([]byte, error)
}

// at formats a position as path:line.
func (t *tree) at(p token.Pos) string {
	pos := t.fset.Position(p)
	return fmt.Sprintf("%s:%d", pos.Filename, pos.Line)
}

// add parses one Go source into the tree.
func (t *tree) add(name string, text []byte) error {
	syntax, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.files = append(t.files, &file{name, text, syntax, ast.IsGenerated(syntax)})
	return nil
}

// in returns the hand-written, non-test sources of a folder and its subfolders.
func (t *tree) in(dir string) []*file {
	var found []*file
	for _, f := range t.files {
		if !f.test() && !f.generated && (f.dir() == dir || strings.HasPrefix(f.dir(), dir+"/")) {
			found = append(found, f)
		}
	}
	return found
}

// dirs returns the folders that hold Go sources, sorted.
func (t *tree) dirs() []string {
	var dirs []string
	for _, f := range t.files {
		dirs = append(dirs, f.dir())
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// plant makes a tree of sources given by path.
func plant(sources map[string]string) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), read: func(p string) ([]byte, error) { return []byte(sources[p]), nil }}
	for p := range sources {
		t.paths = append(t.paths, p)
	}
	slices.Sort(t.paths)
	err := t.parse()
	return t, err
}

// parse reads the Go sources among t.paths. Folders that the go command ignores are left out.
func (t *tree) parse() error {
	for _, p := range t.paths {
		if !strings.HasSuffix(p, ".go") || hidden(p) {
			continue
		}
		text, err := t.read(p)
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		if err := t.add(p, text); err != nil {
			t.broken = append(t.broken, err.Error())
		}
	}
	return nil
}

func hidden(p string) bool {
	for _, part := range strings.Split(p, "/") {
		if part == "testdata" || part[0] == '.' || part[0] == '_' {
			return true
		}
	}
	return false
}

// moduleRoot finds the folder of the module: the nearest go.mod above this one.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("find module: no go.mod above %s", dir)
		}
		dir = up
	}
}

// repository reads the tree of the module in folder root: all files except build output, and if there is git, only
// those that it tracks or would track. It walks the folders in any case: so `go test` sees that a file is new, and does
// not use its cached result.
func repository(root string) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), read: func(p string) ([]byte, error) {
		return os.ReadFile(filepath.Join(root, filepath.FromSlash(p)))
	}}
	if err := t.walk(root); err != nil {
		return nil, fmt.Errorf("walk the repository: %w", err)
	}
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		known := map[string]bool{}
		for _, p := range strings.Split(string(out), "\x00") {
			known[p] = true
		}
		t.paths = slices.DeleteFunc(t.paths, func(p string) bool { return !known[p] })
	}
	slices.Sort(t.paths)
	err := t.parse()
	return t, err
}

func (t *tree) walk(root string) error {
	return filepath.WalkDir(root, func(full string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		p = filepath.ToSlash(p)
		if entry.IsDir() && (p == ".git" || p == "bin" || p == "dist") {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() {
			t.paths = append(t.paths, p)
		}
		return nil
	})
}
