package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/rotasched/rota/test/rig"
)

// installed is a tool on this machine.
type installed struct {
	name, version, note string
	// dir holds it, program is its executable; either may be empty for some kinds of tool.
	dir, program string
	// env is the program's environment in addition to the caller's.
	env []string
}

// python, node return a program of a tool that was installed by pip or npm.
func (t *installed) python() string         { return filepath.Join(t.dir, "venv", "bin", "python") }
func (t *installed) bin(name string) string { return filepath.Join(t.dir, "venv", "bin", name) }
func (t *installed) npx(name string) string {
	return filepath.Join(t.dir, "node_modules", ".bin", name)
}
func (t *installed) modules() string     { return filepath.Join(t.dir, "node_modules") }
func (t *installed) inherited() []string { return rig.Inherited(t.env...) }
func goEnv() []string {
	return rig.Inherited("CGO_ENABLED=0", "GOFLAGS=-trimpath -mod=mod", "GOWORK=off")
}
func (t *installed) jar() string              { return filepath.Join(t.dir, "tool.jar") }
func (t *installed) in(dir string) command    { return command{dir: dir, env: t.inherited()} }
func (t *installed) unpacked(p string) string { return filepath.Join(t.dir, "root", p) }

// install installs a tool in the cache directory, once, and returns it.
func (s *scene) install(ctx context.Context, name string) (*installed, error) {
	if t := s.tools[name]; t != nil {
		return t, nil
	}
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
	if i < 0 {
		return nil, fmt.Errorf("tool %q is not in tools.go", name)
	}
	t := tools[i]
	most := t.most
	if most == 0 {
		most = maxInstall
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	got := &installed{name: name, version: t.version, note: t.note}
	if t.missing != "" {
		return got, skipped(t.missing)
	}
	if len(t.look) > 0 {
		return got, s.look(ctx, t, got)
	}
	place := strings.ReplaceAll(strings.ToLower(name), " ", "-")
	if t.version != "" {
		place += "-" + t.version
	}
	got.dir = filepath.Join(s.cache, place)
	ready := filepath.Join(got.dir, "ready")
	if _, err := os.Stat(ready); err != nil {
		if err := errors.Join(os.RemoveAll(got.dir), os.MkdirAll(got.dir, 0o755)); err != nil {
			return got, err
		}
		if err := t.fetch(ctx, got.dir); err != nil {
			return got, err
		}
		if err := (command{dir: got.dir}).steps(ctx, t.then...); err != nil {
			return got, err
		}
		if err := os.WriteFile(ready, nil, 0o644); err != nil {
			return got, err
		}
	}
	s.tools[name] = got
	return got, t.settle(ctx, got)
}

// look finds a program of the machine.
func (s *scene) look(ctx context.Context, t tool, got *installed) error {
	path, err := exec.LookPath(t.look[0])
	if err != nil {
		return err
	}
	said, err := command{dir: s.dir}.run(ctx, path, t.look[1:]...)
	got.program, got.version, got.dir = path, versionIn(said), t.folder
	s.tools[t.name] = got
	return err
}

var versionLike = regexp.MustCompile(`\d+\.\d+(\.\d+)*`)

// versionIn returns the first version in a text.
func versionIn(text string) string { return versionLike.FindString(text) }

// fetch downloads a tool into a directory.
func (t tool) fetch(ctx context.Context, dir string) error {
	in := command{dir: dir}
	var err error
	switch {
	case t.goPackage != "":
		err = t.buildGo(ctx, dir)
	case len(t.npm) > 0:
		if err = os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"type":"module"}`),
			0o644); err == nil {
			_, err = in.run(ctx, "npm", append([]string{"install", "--ignore-scripts", "--no-audit", "--no-fund",
				"--loglevel=error", "--save-exact"}, t.npm...)...)
		}
	case len(t.pip) > 0:
		if _, err = in.run(ctx, "python3", "-m", "venv", "venv"); err == nil {
			_, err = in.run(ctx, "venv/bin/pip", append([]string{"install", "-q", "--disable-pip-version-check"},
				t.pip...)...)
		}
	case strings.HasSuffix(t.maven, ":zip"):
		parts := strings.Split(t.maven, ":")
		err = in.steps(ctx, []string{"mvn", "-q", "-B", "dependency:copy", "-Dartifact=" + t.maven,
			"-DoutputDirectory=" + dir, "-Dmdep.stripVersion=true"}, []string{"unzip", "-q", parts[1] + ".zip"},
			[]string{"rm", parts[1] + ".zip"}, []string{"sh", "-c", "mv */* ."})
	case t.maven != "":
		_, err = in.run(ctx, "mvn", "-q", "-B", "dependency:copy", "-Dartifact="+t.maven, "-DoutputDirectory="+dir,
			"-Dmdep.stripVersion=true")
		if err == nil {
			err = os.Rename(filepath.Join(dir, strings.Split(t.maven, ":")[1]+".jar"), filepath.Join(dir, "tool.jar"))
		}
		if err == nil && t.archive != "" {
			err = in.steps(ctx, []string{"jar", "xf", "tool.jar"}, []string{"tar", "xJf", t.archive},
				[]string{"rm", t.archive, "tool.jar"})
		}
	case len(t.deb) > 0:
		err = t.unpackDeb(ctx, dir)
	}
	return err
}

// buildGo builds a program of a Go module in a module of its own, so that the replacements of its go.mod can be given.
func (t tool) buildGo(ctx context.Context, dir string) error {
	in := command{dir: dir, env: goEnv()}
	if _, err := in.run(ctx, "go", "mod", "init", "compat"); err != nil {
		return err
	}
	for _, r := range t.goReplace {
		flag := "-replace=" + r
		if module, excluded := strings.CutSuffix(r, "=-"); excluded {
			flag = "-exclude=" + module + "@v3.0.83+incompatible"
		}
		if _, err := in.run(ctx, "go", "mod", "edit", flag); err != nil {
			return err
		}
	}
	for i, part := range t.goParts {
		if err := in.replacePart(ctx, part, fmt.Sprint("part", i)); err != nil {
			return err
		}
	}
	if _, err := in.run(ctx, "go", "get", t.goPackage+"@"+t.version); err != nil {
		return err
	}
	_, err := in.run(ctx, "go", "build", "-p", "1", "-ldflags", "-s -w", "-o", "tool", t.goPackage)
	return err
}

// replacePart copies a module with one file of testdata to a folder, and makes the build use it.
func (c command) replacePart(ctx context.Context, part goPart, name string) error {
	source, err := filepath.Abs(filepath.Join("test", "compat", "testdata", "traefik", part.source))
	if err != nil {
		return err
	}
	folder := filepath.Join(c.dir, name)
	if part.version == "" {
		err = c.steps(ctx, []string{"mkdir", name})
		if err == nil {
			_, err = command{dir: folder, env: c.env}.run(ctx, "go", "mod", "init", part.module)
		}
	} else {
		var said string
		if said, err = c.run(ctx, "go", "mod", "download", "-json", part.module+"@"+part.version); err != nil {
			return err
		}
		var fetched struct{ Dir string }
		if err = json.Unmarshal([]byte(said), &fetched); err == nil {
			err = c.steps(ctx, []string{"cp", "-r", fetched.Dir, name}, []string{"chmod", "-R", "u+w", name})
		}
	}
	if err != nil {
		return err
	}
	return c.steps(ctx, []string{"cp", source, filepath.Join(folder, filepath.FromSlash(part.file))},
		[]string{"go", "mod", "edit", "-replace=" + part.module + "=./" + name})
}

// unpackDeb fetches Debian packages and unpacks them below root. Libraries that this release of Debian does not have are left out.
func (t tool) unpackDeb(ctx context.Context, dir string) error {
	if runtime.GOOS != "linux" {
		return errors.New("packages of Debian need Linux")
	}
	in := command{dir: dir}
	options, err := t.aptOptions(ctx, dir)
	if err != nil {
		return err
	}
	for i, name := range t.deb {
		if _, err := in.run(ctx, "apt-get", append(options, "download", name)...); err != nil && i == 0 {
			return fmt.Errorf("%w (apt-get update may be needed)", err)
		}
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := in.run(ctx, "dpkg", "-x", deb, "root"); err != nil {
			return err
		}
	}
	said, err := in.run(ctx, "dpkg-deb", "-f", debs[slices.IndexFunc(debs, func(d string) bool {
		return strings.HasPrefix(filepath.Base(d), t.deb[0]+"_")
	})], "Version")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "version"), []byte(said), 0o644)
}

// aptOptions returns options by which apt-get downloads packages of the tool's release, from the machine's mirror of
// Debian. The lists of packages are kept in the directory; the machine's own do not change.
func (t tool) aptOptions(ctx context.Context, dir string) ([]string, error) {
	if t.suite == "" {
		return nil, nil
	}
	in := command{dir: dir}
	said, err := in.run(ctx, "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)")
	if err != nil {
		return nil, err
	}
	mirror := ""
	for line := range strings.Lines(said) {
		if uri, is := strings.CutPrefix(strings.TrimSpace(line), "Debian "); is && mirror == "" {
			mirror = uri
		}
	}
	if mirror == "" {
		return nil, errors.New("the machine has no mirror of Debian")
	}
	if err := in.steps(ctx, []string{"mkdir", "-p", "apt/lists/partial", "apt/cache/archives/partial"},
		[]string{"touch", "apt/status"}); err != nil {
		return nil, err
	}
	list := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + mirror + " " + t.suite + " main\n"
	if err := os.WriteFile(filepath.Join(dir, "apt", "sources.list"), []byte(list), 0o644); err != nil {
		return nil, err
	}
	apt := filepath.Join(dir, "apt")
	options := []string{"-o", "Dir::Etc::sourcelist=" + apt + "/sources.list", "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + apt + "/lists", "-o", "Dir::Cache=" + apt + "/cache",
		"-o", "Dir::State::status=" + apt + "/status"}
	_, err = in.run(ctx, "apt-get", append(options[:len(options):len(options)], "update")...)
	return options[:len(options):len(options)], err
}

// settle finds the program of an installed tool.
func (t tool) settle(_ context.Context, got *installed) error {
	switch {
	case t.goPackage != "":
		got.program = filepath.Join(got.dir, "tool")
	case len(t.deb) > 0:
		text, err := os.ReadFile(filepath.Join(got.dir, "version"))
		if err != nil {
			return err
		}
		got.version = strings.TrimSpace(string(text))
		got.program = got.unpacked(t.program)
		libs := got.unpacked("usr/lib/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] +
			"-linux-gnu")
		got.env = []string{"LD_LIBRARY_PATH=" + libs}
	case t.program != "":
		got.program = filepath.Join(got.dir, t.program)
	}
	return nil
}
