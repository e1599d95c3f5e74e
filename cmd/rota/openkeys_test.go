package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestOpenKeys refuses the key of a certificate if everybody may read it.
func TestOpenKeys(t *testing.T) {
	t.Parallel()
	files := newIssuer(t, "test").issue(t.TempDir(), time.Hour)
	if _, err := files.Certificate(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(files.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Certificate(); rota.KindOf(err) != rota.KindDenied ||
		!strings.Contains(err.Error(), "chmod 600 "+files.Key) {
		t.Errorf("a key that everybody can read: %v", err)
	}
}
