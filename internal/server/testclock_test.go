package server

import "testing"

// TestWorldIsReal compares the world of a normal build with the zero value, which is the real one.
func TestWorldIsReal(t *testing.T) {
	t.Setenv("ROTA_TEST_"+"CLOCK", t.TempDir()+"/clock")
	t.Setenv("ROTA_TEST_"+"DEAD_AFTER", "8s")
	if w := world(); (w.Wall != nil || w.DeadAfter != 0) && !testClockBuilt || w.SinceBoot != nil || w.Dial != nil ||
		w.NoSync {
		t.Errorf("the world of this build is not the real one: %+v", w)
	}
}
