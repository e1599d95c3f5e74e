package check

import "testing"

func TestRevokedBites(t *testing.T) {
	t.Parallel()
	revoked := func(s *story) { // of producer-1, acknowledged at 1 s
		s.h.Revocations = []Revocation{{Token: "old", Holder: "producer-1", Begin: ms(800), End: ms(3_000),
			Acknowledged: ms(1_000)}}
	}
	with := func(do func(s *story)) func(s *story) {
		return func(s *story) { revoked(s); do(s) }
	}
	bites(t, []plant{
		{"submitted_after", "revoked", with(func(s *story) {
			s.submitted("c", 1_500).ended("c", "quick", "QUEUED", "").find(OpSubmit, "c", 0).Shown = "old"
		})},
		{"completed_after", "revoked", with(func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 950, 1_500, DidComplete, OK).ended("c", "quick", "COMPLETED",
				"c/1.5", 5)
			s.find(OpReport, "c", 0).Shown = "old"
		})},
		{"read_after", "revoked", with(func(s *story) {
			s.read("a", "COMPLETED", 4, 1_600, 1_700).find(OpGet, "a", 2).Shown = "old"
		})},
		{"refused_and_there", "lost", with(func(s *story) {
			s.submitted("c", 1_500).ended("c", "quick", "QUEUED", "")
			op := s.find(OpSubmit, "c", 0)
			op.Shown, op.Outcome, op.Kind = "old", Refused, "UNAUTHENTICATED"
		})},
	})
	spares(t, []plant{
		{"submitted_before", "revoked", with(func(s *story) {
			s.submitted("c", 900).ended("c", "quick", "QUEUED", "").find(OpSubmit, "c", 0).Shown = "old"
		})},
		{"under_way_meanwhile", "revoked", with(func(s *story) {
			s.submitted("c", 998).ended("c", "quick", "QUEUED", "").find(OpSubmit, "c", 0).Shown = "old"
		})},
		{"refused", "revoked", with(func(s *story) {
			s.submitted("c", 1_500)
			op := s.find(OpSubmit, "c", 0)
			op.Shown, op.Outcome, op.Kind = "old", Refused, "UNAUTHENTICATED"
		})},
		{"another_token", "revoked", with(func(s *story) {
			s.submitted("c", 1_500).ended("c", "quick", "QUEUED", "").find(OpSubmit, "c", 0).Shown = "new"
		})},
		{"never_acknowledged", "revoked", func(s *story) {
			revoked(s)
			s.h.Revocations[0].Acknowledged = 0
			s.submitted("c", 1_500).ended("c", "quick", "QUEUED", "").find(OpSubmit, "c", 0).Shown = "old"
		}},
	})
}

// The cluster does not wait for a worker whose token is revoked: its lease is another's at once. It does wait for one
// that kept its token.
func TestRevoked_workersAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	both := func(holder string) func(s *story) {
		return func(s *story) {
			s.submitted("c", 900).worked("w1.1", "c", 5, 1_000, 9_000, DidLose, OK)
			s.worked("w2.1", "c", 6, 5_000, 9_500, DidComplete, OK).ended("c", "quick", "COMPLETED", "c/1.6", 5, 6)
			s.h.Revocations = []Revocation{{Token: "old", Holder: holder, Begin: ms(4_000), Asked: ms(4_900),
				Acknowledged: ms(4_950), End: ms(5_000)}}
			s.happened("leaseCancelled", "c", 5, "ACCESS_ENDED").h.Events[len(s.h.Events)-1].Worker = "w1-01"
		}
	}
	spares(t, []plant{{"its_own", "overlap", both("w1")}})
	bites(t, []plant{{"another_s", "overlap", both("w2")}})
}

// A call that is refused for its token has that outcome only if nothing of it can have gone out before the revocation
// was acknowledged.
func TestDoubted(t *testing.T) {
	t.Parallel()
	rec := NewRecorder(0, 10)
	rec.Revoked("old", ms(1_000))
	for _, c := range []struct {
		name, shown, kind string
		invoke            int64
		want              Outcome
	}{
		{"after", "old", "UNAUTHENTICATED", 1_500, Refused},
		{"before", "old", "UNAUTHENTICATED", 900, Unknown},
		{"several tokens", "", "UNAUTHENTICATED", 1_500, Unknown},
		{"denied as it was applied", "old", "DENIED", 900, Unknown},
		{"for another reason", "old", "CONFLICT", 900, Refused},
	} {
		op := Op{Shown: c.shown, Kind: c.kind, Invoke: ms(c.invoke), Return: ms(c.invoke + 1),
			Outcome: Refused}.Doubted(rec)
		if op.Outcome != c.want || (op.Return == never) != (c.want == Unknown) {
			t.Errorf("%s: %s until %d, want %s", c.name, op.Outcome, op.Return, c.want)
		}
	}
}
