package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// architectures are the target processors of packages, by Go's names.
var architectures = []string{"amd64", "arm64"}

// release describes the source of packages and their destination.
type release struct {
	// source is the checkout, out the folder of packages.
	source, out string
	version     string
	// date is the commit's, in every package.
	date time.Time
}

func main() {
	r := release{}
	var epoch int64
	flag.StringVar(&r.source, "source", "../..", "the checkout of rota")
	flag.StringVar(&r.out, "out", "", "the folder that packages go into; what it holds is replaced")
	flag.StringVar(&r.version, "version", "", "the version, as in 0.1.0")
	flag.Int64Var(&epoch, "date", 0, "the commit's date in seconds since 1970")
	flag.Parse()
	r.date = time.Unix(epoch, 0).UTC()
	err := r.check(epoch)
	if err == nil {
		err = r.build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func (r *release) check(epoch int64) error {
	if r.out == "" || epoch <= 0 {
		return fmt.Errorf("-out and -date are missing: `make packages` sets them")
	}
	if !versions.MatchString(r.version) {
		return fmt.Errorf(
			"version %q is refused: it is three numbers, such as 0.1.0, and may have a suffix, such as 0.1.0-dev",
			r.version)
	}
	return nil
}

// build builds all packages next to the folder and then replaces it: the folder is complete, or unchanged.
func (r *release) build() error {
	fresh := r.out + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for _, arch := range architectures {
		if err := r.buildFor(arch, fresh); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := writeSums(fresh); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	return os.Rename(fresh, r.out)
}

func (r *release) buildFor(arch, dir string) error {
	work, err := os.MkdirTemp("", "rota-packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "rota")
	if err := r.compile(arch, binary); err != nil {
		return err
	}
	files, err := r.files(binary, work)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm", "apk"} {
		if err := r.pack(format, arch, files, work, dir); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	if err := r.tarball(arch, files, dir); err != nil {
		return err
	}
	return r.bill(arch, binary, dir)
}

// compile builds rota as `make build` does, for a processor.
func (r *release) compile(arch, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version,
		"-o", to, "./cmd/rota")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// writeSums writes SHA256SUMS of all files in a folder, as sha256sum --check reads it.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644)
}
