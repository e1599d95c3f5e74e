package history

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain wants nothing left behind by any test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
