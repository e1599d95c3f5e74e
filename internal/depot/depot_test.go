package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/bucket"
)

// named checks a backup that holds only its own index.
func named(cluster rota.ClusterID) func(io.Reader) (Name, error) {
	return func(r io.Reader) (Name, error) {
		text, err := io.ReadAll(r)
		if err != nil || len(text) < 4 || string(text[:4]) != "rota" {
			return Name{}, errors.Join(err, errors.New("it is not a backup"))
		}
		return Name{Cluster: cluster, Index: rota.Index(len(text))}, nil
	}
}

func writing(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// place is a store of a test, with direct access to its content.
type place struct {
	options Options
	files   func() []string
	get     func(name string) []byte
	set     func(name string, body []byte)
	// altered changes the next stored object.
	altered func(change func([]byte) []byte)
	s3      *bucket.Store
}

// open opens it as the nodes do, if needed with another one's environment.
func (p place) open(t *testing.T) *Depot {
	t.Helper()
	d, err := Open(p.options)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// altering is a directory that changes its stored files.
type altering struct {
	directory
	change func([]byte) []byte
}

func (a altering) fill(ctx context.Context, name string, r io.Reader) error {
	if err := a.directory.fill(ctx, name, r); err != nil {
		return err
	}
	body, err := os.ReadFile(a.place(name))
	if err != nil {
		return err
	}
	if body = a.change(body); body == nil {
		return os.Remove(a.place(name))
	}
	return os.WriteFile(a.place(name), body, 0o600)
}

// places runs a test for each kind of store.
func places(t *testing.T, test func(t *testing.T, p place)) {
	t.Helper()
	t.Run("directory", func(t *testing.T) {
		path := t.TempDir()
		test(t, place{options: Options{To: path},
			files: func() (names []string) {
				list, err := os.ReadDir(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range list {
					names = append(names, f.Name())
				}
				return names
			},
			get: func(name string) []byte { body, _ := os.ReadFile(filepath.Join(path, name)); return body },
			set: func(name string, body []byte) {
				if err := os.WriteFile(filepath.Join(path, name), body, 0o600); err != nil {
					t.Fatal(err)
				}
			}})
	})
	t.Run("bucket", func(t *testing.T) {
		s3 := bucket.Start(t, "backups")
		useStore(t, s3)
		test(t, place{options: Options{To: "s3://backups/deep/down", Endpoint: s3.URL}, s3: s3,
			files: func() (names []string) {
				for _, key := range s3.Keys("backups") {
					names = append(names, strings.TrimPrefix(key, "deep/down/"))
				}
				return names
			},
			get: func(name string) []byte { return s3.Object("backups", "deep/down/"+name) },
			set: func(name string, body []byte) { s3.Set("backups", "deep/down/"+name, body) }})
	})
}

func useStore(t *testing.T, s *bucket.Store) {
	t.Helper()
	for _, pair := range s.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	for _, n := range []Name{{"c-1", 0, false}, {"c-abc-d", 1<<64 - 1, false}, {"x", 429, true}} {
		if got, ok := ParseName(n.String()); !ok || got != n {
			t.Errorf("%s is read as %+v, %v", n, got, ok)
		}
	}
	for _, s := range []string{"", ".snap", "-.snap", "c-1.snap", "c-0000000000000000001.snap",
		"c-00000000000000000001.snap.gz", "c-00000000000000000001.age",
		"../c-00000000000000000001.snap", "c-99999999999999999999.snap", "c-+0000000000000000001.snap",
		"-00000000000000000001.snap"} {
		if n, ok := ParseName(s); ok {
			t.Errorf("%q is read as %+v", s, n)
		}
	}
}

func TestPut(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		d := p.open(t)
		b, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1"))
		sum := sha256.Sum256([]byte("rota-backup"))
		if err != nil || b.Index != 11 || b.Bytes != 11 || b.Cluster != "c-1" || b.Sealed ||
			!bytes.Equal(b.SHA256, sum[:]) || b.Made <= 0 {
			t.Fatalf("%+v, %v", b, err)
		}
		if !strings.HasPrefix(b.File, p.options.To+"/") {
			t.Errorf("its path is given as %s", b.File)
		}
		again, err := d.Put(t.Context(), "n2", writing("rota-BACKUP"), named("c-1"))
		if err != nil || again.File != b.File || bytes.Equal(again.SHA256, b.SHA256) ||
			string(p.get(b.Name.String())) != "rota-BACKUP" {
			t.Errorf("the same index again: %+v, %v", again, err)
		}
		if got := p.files(); len(got) != 1 {
			t.Errorf("%q", got)
		}
		r, err := d.Fetch(t.Context(), b.Name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if text, err := io.ReadAll(r); err != nil || string(text) != "rota-BACKUP" {
			t.Errorf("%q, %v", text, err)
		}
		if _, err := d.Fetch(t.Context(), Name{Cluster: "c-1", Index: 12}); err == nil {
			t.Error("a missing backup is fetched")
		}
	})
}

// An object too large for one copy request is copied in parts.
func TestPut_copiedInParts(t *testing.T) {
	s3 := bucket.Start(t, "backups")
	useStore(t, s3)
	d := place{options: Options{To: "s3://backups"}}.open(t)
	d.store.(*s3Store).maxCopy = 4
	b, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1"))
	if got := s3.Keys("backups"); err != nil || len(got) != 1 ||
		string(s3.Object("backups", b.Name.String())) != "rota-backup" || s3.Uploads() != 0 {
		t.Errorf("%+v, %v: %q", b, err, got)
	}
}

// A backup is larger than one request can store, or memory can hold.
func TestPut_inParts(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		d := p.open(t)
		block := make([]byte, 1<<20)
		random := rand.NewChaCha8([32]byte{})
		_, _ = random.Read(block)
		const blocks = 2*partBytes>>20 + 1
		b, err := d.Put(t.Context(), "n1", func(w io.Writer) error {
			for range blocks {
				if _, err := w.Write(block); err != nil {
					return err
				}
			}
			return nil
		}, func(r io.Reader) (Name, error) {
			n, err := io.Copy(io.Discard, r)
			return Name{Cluster: "c-1", Index: rota.Index(n)}, err
		})
		if err != nil || b.Index != blocks<<20 || b.Bytes != blocks<<20 {
			t.Fatalf("%+v, %v", b, err)
		}
		if !bytes.Equal(p.get(b.Name.String()), bytes.Repeat(block, blocks)) {
			t.Error("it holds other bytes")
		}
	})
}

// A faulty backup gets no name, and leaves nothing behind.
func TestPut_refuses(t *testing.T) {
	broken := errors.New("broken")
	places(t, func(t *testing.T, p place) {
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(broken)
		for what, of := range map[string]struct {
			ctx   context.Context
			write func(io.Writer) error
			alter func([]byte) []byte
		}{
			"broken off":  {t.Context(), func(w io.Writer) error { _ = writing("rota-ba")(w); return broken }, nil},
			"called off":  {ended, writing("rota-backup"), nil},
			"forged":      {t.Context(), writing("atro-backup"), nil},
			"a bit flips": {t.Context(), writing("rota-backup"), func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
			"cut off":     {t.Context(), writing("rota-backup"), func(b []byte) []byte { return b[:9] }},
			"taken away":  {t.Context(), writing("rota-backup"), func([]byte) []byte { return nil }},
		} {
			d := p.open(t)
			if of.alter != nil {
				if p.s3 != nil {
					p.s3.Alter(func(_ string, b []byte) []byte { return of.alter(b) })
				} else {
					d.store = altering{d.store.(directory), of.alter}
				}
			}
			if b, err := d.Put(of.ctx, "n1", of.write, named("c-1")); err == nil {
				t.Errorf("%s: stored as %+v", what, b)
			} else if of.alter == nil && what != "forged" && !errors.Is(err, broken) &&
				!errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
			if got := p.files(); len(got) != 0 {
				t.Errorf("%s: %q is left", what, got)
			}
			if p.s3 != nil {
				p.s3.Alter(nil)
				if n := p.s3.Uploads(); n != 0 {
					t.Errorf("%s: %d uploads are left", what, n)
				}
			}
		}
	})
}

// A process killed in the middle leaves no backup, and the next one overwrites the rest.
func TestPut_killed(t *testing.T) {
	if to := os.Getenv("DEPOT_KILLED"); to != "" {
		d := place{options: Options{To: to}}.open(t)
		_, _ = d.Put(t.Context(), "n1", func(w io.Writer) error {
			_ = writing("rota-" + strings.Repeat("half of a backup", partBytes/8))(w)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}, named("c-1"))
	}
	places(t, func(t *testing.T, p place) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPut_killed$")
		cmd.Env = append(os.Environ(), "DEPOT_KILLED="+p.options.To)
		if err := cmd.Run(); err == nil {
			t.Fatal("it survived")
		}
		d := p.open(t)
		if p.s3 != nil && p.s3.Uploads() != 1 || p.s3 == nil && len(p.files()) != 1 {
			t.Fatalf("it did not die in the middle: %q is left", p.files())
		}
		for _, name := range p.files() {
			if !Partial(name) {
				t.Errorf("%s is left", name)
			}
		}
		if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
			t.Fatalf("%+v, %v", all, err)
		}
		if _, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1")); err != nil {
			t.Fatal(err)
		}
		if got := p.files(); len(got) != 1 || Partial(got[0]) || p.s3 != nil && p.s3.Uploads() != 0 {
			t.Errorf("%q is left", got)
		}
	})
}

// Only a cluster's own backups are deleted, and never its last three; backups beyond its index are neither deleted nor
// counted.
func TestPrune(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		d := p.open(t)
		forged := Name{Cluster: "c-1", Index: 1 << 60}.String()
		foreign := []string{Name{Cluster: "c-2", Index: 1}.String(), Name{Cluster: "c-1-2", Index: 1}.String(),
			"notes.txt", "c-1-1.snap", ".rota-n2.part", forged}
		for _, name := range foreign {
			p.set(name, []byte("x"))
		}
		for i := range 8 {
			if _, err := d.Put(t.Context(), "n1", writing("rota"+strings.Repeat("x", 10*i)), named("c-1")); err != nil {
				t.Fatal(err)
			}
		}
		for _, of := range []struct{ keep, gone, left int }{{9, 0, 8}, {5, 3, 5}, {0, 2, 3}, {1, 0, 3}} {
			gone, err := d.Prune(t.Context(), "c-1", 74, of.keep)
			all, listErr := d.List(t.Context())
			own := Of(all, "c-1")
			if err != nil || listErr != nil || len(gone) != of.gone || len(own) != of.left+1 ||
				own[len(own)-2].Index != 74 {
				t.Errorf("keep %d: %d gone, %+v left, %v, %v", of.keep, len(gone), own, err, listErr)
			}
		}
		left := p.files()
		for _, name := range foreign {
			if !slices.Contains(left, name) {
				t.Errorf("%s is gone", name)
			}
		}
	})
}

// A store's refusal is reported together with its remedy.
func TestBucket_refusals(t *testing.T) {
	s3 := bucket.Start(t, "backups")
	useStore(t, s3)
	put := func(to string) error {
		d, err := Open(Options{To: to, Endpoint: s3.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1"))
		if all, listErr := d.List(t.Context()); listErr == nil && len(all) > 0 {
			t.Errorf("%+v is stored", all)
		}
		return err
	}
	says := func(what string, err error, kind rota.Kind, words ...string) {
		t.Helper()
		if err == nil || rota.KindOf(err) != kind {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in %q", what, w, err)
			}
		}
	}
	says("wrong bucket", put("s3://bakcups"), rota.KindInvalid, "s3://bakcups", "create it, or fix the name")
	for code, of := range map[string]struct {
		status int
		kind   rota.Kind
		word   string
	}{
		"SlowDown":                     {http.StatusServiceUnavailable, rota.KindUnavailable, "tried again"},
		"XMinioStorageFull":            {http.StatusInsufficientStorage, rota.KindUnavailable, "make room"},
		"SomethingNew":                 {http.StatusInternalServerError, rota.KindUnavailable, "tried again"},
		"AccessDenied":                 {http.StatusForbidden, rota.KindInvalid, "write and delete"},
		"AuthorizationHeaderMalformed": {http.StatusBadRequest, rota.KindInvalid, "--backup-region"},
	} {
		s3.Refuse(func(r *http.Request) (int, string) {
			if r.Method == http.MethodPut {
				return of.status, code
			}
			return 0, ""
		})
		says(code, put("s3://backups"), of.kind, of.word)
		s3.Refuse(nil)
		if n, keys := s3.Uploads(), s3.Keys("backups"); n != 0 || len(keys) != 0 {
			t.Errorf("%s: %d uploads and %q are left", code, n, keys)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	says("wrong secret", put("s3://backups"), rota.KindInvalid, "AWS_SECRET_ACCESS_KEY")
	t.Setenv("AWS_ACCESS_KEY_ID", "another")
	says("wrong key", put("s3://backups"), rota.KindInvalid, "AWS_ACCESS_KEY_ID")
}

// Credentials may be in a file of the usual format.
func TestBucket_credentialsInFile(t *testing.T) {
	s3 := bucket.Start(t, "backups")
	useStore(t, s3)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", file+"-absent")
	if _, err := Open(Options{To: "s3://backups"}); rota.KindOf(err) != rota.KindInvalid ||
		!strings.Contains(err.Error(), "AWS_SHARED_CREDENTIALS_FILE") {
		t.Errorf("without credentials: %v", err)
	}
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", bucket.AccessKey,
		bucket.SecretKey)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{To: "s3://backups"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1")); err != nil {
		t.Error(err)
	}
}

// TestBucket_plainPayloads: without TLS no part is sent in signed pieces, whose frames some stores keep as data.
func TestBucket_plainPayloads(t *testing.T) {
	s3 := bucket.Start(t, "backups")
	useStore(t, s3)
	s3.Refuse(func(r *http.Request) (int, string) {
		if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
			return http.StatusNotImplemented, "NotImplemented"
		}
		return 0, ""
	})
	d, err := Open(Options{To: "s3://backups", Endpoint: s3.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1")); err != nil {
		t.Error(err)
	}
}

func TestOpen_refuses(t *testing.T) {
	useStore(t, bucket.Start(t, "backups"))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{To: file}, {To: file + "-absent"}, {To: "s3://"}, {To: "s3:///x"},
		{To: "s3://b", Endpoint: "s3.example.org"},
		{To: "s3://b", Endpoint: "http://s3.example.org"}, {To: "s3://b", Endpoint: "ftp://127.0.0.1"},
		{To: "s3://b", Endpoint: "https://u:p@h"},
		{To: "s3://b", Endpoint: "https://h/path"}, {To: t.TempDir(), Recipients: []string{"age1nonsense"}}} {
		if _, err := Open(o); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("%+v is opened: %v", o, err)
		}
	}
}

// A full disk stores nothing, and leaves nothing behind.
func TestPut_fullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a full disk is made by mounting a small one, which requires root")
	}
	path := t.TempDir()
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path).CombinedOutput(); err != nil {
		t.Skipf("no small disk: mount: %v: %s", err, said)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", path).Run() })
	p := place{options: Options{To: path}}
	d := p.open(t)
	if _, err := d.Put(t.Context(), "n1", writing("rota"+strings.Repeat("x", 1<<20)), named("c-1")); !errors.Is(err,
		syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := d.Put(t.Context(), "n1", writing("rota-backup"), named("c-1")); err != nil {
		t.Errorf("a smaller one: %v", err)
	}
}
