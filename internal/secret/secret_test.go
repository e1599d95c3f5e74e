package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestReadFile checks that a secret is refused if others may read it or its group may write it.
func TestReadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, taken := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o440: true, 0o640: true,
		0o644: false, 0o604: false, 0o602: false, 0o601: false, 0o620: false, 0o660: false, 0o666: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		text, err := ReadFile(path, 4)
		switch {
		case taken && (err != nil || string(text) != "hush"):
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		case !taken && (len(text) > 0 || rota.KindOf(err) != rota.KindDenied ||
			!strings.Contains(err.Error(), "chmod 600 "+path)):
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path, 3); err == nil {
		t.Error("a secret that is too long is read")
	}
}
