package server

import "testing"

// TestWorldIsReal holds the world of a normal build against the zero value, which
// is the real one.
func TestWorldIsReal(t *testing.T) {
	t.Setenv("ROTA_TEST_"+"CLOCK", t.TempDir()+"/clock")
	if w := world(); w.Wall != nil && !testClockBuilt || w.SinceBoot != nil || w.Dial != nil || w.NoSync {
		t.Errorf("the world of this build is not the real one: %+v", w)
	}
}
