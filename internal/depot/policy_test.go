package depot

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/bucket"
)

// documentedPolicy returns that of docs/operations/backup.md.
func documentedPolicy(t *testing.T) bucket.Policy {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := bytes.Cut(page, []byte("```json\n"))
	text, _, closed := bytes.Cut(text, []byte("```"))
	if !found || !closed {
		t.Fatal("docs/operations/backup.md has no policy")
	}
	return bucket.ParsePolicy(t, text)
}

// everything performs all operations of nodes and commands on a place, and returns the first error.
func everything(t *testing.T, s3 *bucket.Store) error {
	t.Helper()
	d, err := Open(Options{To: "s3://backups/rota", Endpoint: s3.URL, Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, maxCopy := range []int64{copyBytes, 4} {
		d.store.(*s3Store).maxCopy = maxCopy
		for i := range 5 {
			b, err := d.Put(t.Context(), "n1", writing("rota"+strings.Repeat("x", i)), named("c-1"))
			if err != nil {
				return err
			}
			r, err := d.Fetch(t.Context(), b.Name)
			if err != nil {
				return err
			}
			if _, err := io.ReadAll(r); err != nil {
				return err
			}
			_ = r.Close()
		}
	}
	if _, err := d.List(t.Context()); err != nil {
		return err
	}
	gone, err := d.Prune(t.Context(), "c-1", 1<<20, 3)
	if err == nil && len(gone) != 2 {
		t.Errorf("%d backups gone, want 2", len(gone))
	}
	return err
}

// TestBucket_documentedPolicy checks at a store that enforces permissions that the documented ones are enough, and that
// each is needed.
func TestBucket_documentedPolicy(t *testing.T) {
	whole := documentedPolicy(t)
	s3 := bucket.Start(t, "backups")
	useStore(t, s3)
	s3.Enforce(whole)
	if err := everything(t, s3); err != nil {
		t.Errorf("with the documented policy: %v", err)
	}
	for i, statement := range whole.Statement {
		for j, action := range statement.Action {
			less := documentedPolicy(t)
			less.Statement[i].Action = slices.Delete(less.Statement[i].Action, j, j+1)
			s3 := bucket.Start(t, "backups")
			useStore(t, s3)
			s3.Enforce(less)
			if err := everything(t, s3); rota.KindOf(err) != rota.KindInvalid {
				t.Errorf("without %s: got %v, want a refusal", action, err)
			}
		}
	}
}

// TestBucket_clearsAtBest checks that backups are stored even if a store cannot, or refuses to, list or abort
// interrupted uploads.
func TestBucket_clearsAtBest(t *testing.T) {
	for code, status := range map[string]int{"NotImplemented": http.StatusNotImplemented,
		"NoSuchUpload": http.StatusNotFound, "AccessDenied": http.StatusForbidden} {
		s3 := bucket.Start(t, "backups")
		useStore(t, s3)
		s3.Refuse(func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet && r.URL.Query().Has("uploads") {
				return status, code
			}
			return 0, ""
		})
		if err := everything(t, s3); err != nil {
			t.Errorf("%d %s: %v", status, code, err)
		}
	}
}

// TestCheck_refusesWhatOpenOrPutWould checks that every fault of the options is found before a backup is due.
func TestCheck_refusesWhatOpenOrPutWould(t *testing.T) {
	useStore(t, bucket.Start(t, "backups"))
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	plain, both := identity(t).Recipient().String(), hybrid.Recipient().String()
	to := t.TempDir()
	for name, c := range map[string]struct {
		options Options
		faults  []string
	}{
		"none": {Options{}, nil},
		"a directory": {Options{To: to, Recipients: []string{plain, identity(t).Recipient().String()}},
			nil}, "post-quantum": {Options{To: to, Recipients: []string{both}}, nil},
		"nonsense, and no place": {Options{Recipients: []string{"nonsense"}},
			[]string{`backup-recipient: got "nonsense"`}},
		"both kinds": {Options{To: to, Recipients: []string{plain, both}},
			[]string{"post-quantum recipients (age1pq1…) or others, not both"}},
		"an endpoint without place": {Options{Endpoint: "nonsense"}, []string{`backup-endpoint: got "nonsense"`}},
		"an endpoint": {Options{To: "s3://b", Endpoint: "http://s3.example.org"},
			[]string{"https:// only"}},
		"no directory": {Options{To: to + "/absent"}, []string{"make the directory first"}},
		"no directory, no recipient": {Options{To: to + "/absent", Recipients: []string{plain, both}},
			[]string{"not both", "make the directory first"}},
	} {
		faults := Check(c.options)
		if len(faults) != len(c.faults) {
			t.Errorf("%s: got %v, want %q", name, faults, c.faults)
			continue
		}
		for i, want := range c.faults {
			if !strings.Contains(faults[i].Error(), want) || rota.KindOf(faults[i]) != rota.KindInvalid {
				t.Errorf("%s: got %v, want %q", name, faults[i], want)
			}
		}
	}
}
