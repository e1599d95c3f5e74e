package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnit_exposure compares the systemd unit with docs/security.md, and requires an exposure of at most 2.0 where
// systemd-analyze can measure it.
func TestUnit_exposure(t *testing.T) {
	t.Parallel()
	unit := filepath.Join("..", "..", "docs", "operations", "rota.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict",
		"MemoryDenyWriteExecute=yes",
		"SystemCallFilter=@system-service", "LimitCORE=0", "LoadCredential=node.key:/etc/rota/node.key",
		"CapabilityBoundingSet="} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("%s lacks %q", unit, line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("left out: without systemd-analyze the unit's exposure cannot be measured")
	}
	// --threshold is in tenths.
	if said, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=20",
		unit).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// TestImage_bare checks that the image and compose run without root and privileges, can write only to the volume, and
// have the CA certificates that backups to a bucket need.
func TestImage_bare(t *testing.T) {
	t.Parallel()
	for file, lines := range map[string][]string{
		"Dockerfile": {"FROM scratch", "USER 65532:65532", "COPY ca-certificates.crt /etc/ssl/certs/",
			"STOPSIGNAL SIGTERM", "HEALTHCHECK "},
		"docker-compose.yml": {"read_only: true", "cap_drop: [ALL]", `security_opt: ["no-new-privileges:true"]`},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(string(text), line) {
				t.Errorf("%s lacks %q", file, line)
			}
		}
	}
}
