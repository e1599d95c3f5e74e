package virtual

import (
	"os"
	"testing"

	"github.com/rotasched/rota/internal/virtualnet"
)

// TestMain initializes the parts that bubbles share.
func TestMain(m *testing.M) {
	if err := virtualnet.Warm(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
