package fault

import (
	"os"
	"testing"
)

// TestMain plays the roles of children, which are this binary again.
func TestMain(m *testing.M) {
	role := os.Getenv(RoleKey)
	_ = os.Unsetenv(RoleKey)
	if played, err := Play(role, os.Args[1:]); played {
		if err != nil {
			os.Stderr.WriteString(role + ": " + err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
