package check

import (
	"fmt"
	"testing"
)

// dates adds dates to the samples: the host's wall clock plus ahead of the moment in milliseconds.
func dates(s *story, ahead func(at int64) int64) {
	const begun = 1_700_000_000_000
	for i := range s.h.Samples {
		p := &s.h.Samples[i]
		p.Wall = begun + p.At/1e6
		p.Date = p.Wall - 2 + ahead(p.At/1e6)
		p.Told = []string{"n1", "n2", "n3"}
	}
}

func right(int64) int64 { return 0 }

// jumped moves wall clocks from one moment to another.
func jumped(s *story, ahead int64, from, to int64, nodes ...string) {
	for _, n := range nodes {
		s.h.Walls = append(s.h.Walls, WallShift{Node: n, Begin: ms(from), End: ms(to), Ahead: ahead})
	}
	s.h.Faults = append(s.h.Faults, Fault{Nemesis: "wall-jump", Targets: nodes, From: ms(from), To: ms(to)})
}

// toSixty adds twenty more samples.
func toSixty(s *story) {
	for at := int64(51_000); at <= 80_000; at += 1_000 {
		last := s.h.Samples[len(s.h.Samples)-1]
		last.Asked, last.At, last.Index, last.Clock = ms(at-2), ms(at), uint64(at), 1_000_000+at
		last.Digests = nil
		s.h.Samples = append(s.h.Samples, last)
	}
}

func TestDateBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"goes_back", "clock", func(s *story) {
			dates(s, func(at int64) int64 { return 1000 - 2400*(at/45_000) })
		}},
		{"two_at_one_index", "clock", func(s *story) {
			dates(s, right)
			s.h.Samples = append(s.h.Samples, s.h.Samples[5])
			s.h.Samples[len(s.h.Samples)-1].Date++
		}},
		{"runs_ahead_of_all", "clock", func(s *story) { dates(s, func(at int64) int64 { return at - 30_000 }) }},
		{"stays_behind", "clock", func(s *story) { dates(s, func(int64) int64 { return -5_000 }) }},
		{"follows_one_of_three", "clock", func(s *story) {
			jumped(s, 60_000, 35_000, 48_000, "n1")
			dates(s, func(at int64) int64 { return 60_000 * (at / 36_000) })
		}},
		{"follows_no_majority", "clock", func(s *story) {
			toSixty(s)
			jumped(s, 60_000, 35_000, 80_000, "n1", "n3")
			dates(s, right)
			for i := range s.h.Samples {
				s.h.Samples[i].Skewed = []string{"n2"}
			}
		}},
		{"follows_only_who_came", "clock", func(s *story) {
			s.h.Changes = append(s.h.Changes, Change{ms(5_000), "n3", IsDown}, Change{ms(6_000), "n4", IsUp})
			jumped(s, 60_000, 35_000, 48_000, "n4")
			dates(s, func(at int64) int64 { return 60_000 * (at / 36_000) })
		}},
		{"works_off_no_lead", "clock", func(s *story) {
			toSixty(s)
			jumped(s, 60_000, 31_000, 34_000, "n1", "n2", "n3")
			dates(s, func(at int64) int64 { return min(60_000, max(0, 60_000*(at-32_000))) })
		}},
		{"skew_is_not_told", "clock", func(s *story) {
			jumped(s, -60_000, 35_000, 48_000, "n1")
			dates(s, right)
		}},
		{"clock_follows_a_wall", "clock", func(s *story) {
			jumped(s, 60_000, 31_000, 48_000, "n1", "n2", "n3")
			for i := range s.h.Samples {
				s.h.Samples[i].Clock += int64(i) * 200
			}
		}},
	})
	spares(t, []plant{
		{"right_all_along", "clock", func(s *story) { dates(s, right) }},
		{"one_of_three_jumps", "clock", func(s *story) {
			jumped(s, 3_600_000, 35_000, 48_000, "n1")
			dates(s, right)
			for i := range s.h.Samples {
				s.h.Samples[i].Skewed = []string{"n1"}
			}
		}},
		{"a_majority_jumps_and_is_set_right", "clock", func(s *story) {
			toSixty(s)
			jumped(s, 60_000, 31_000, 45_000, "n1", "n2")
			dates(s, func(at int64) int64 {
				return min(60_000, max(0, 60_000*(at-31_000))) - max(0, at-45_000)/2
			})
			for i := range s.h.Samples {
				s.h.Samples[i].Skewed = []string{"n3"}
			}
		}},
		{"one_that_came_and_another_jump", "clock", func(s *story) {
			s.h.Changes = append(s.h.Changes, Change{ms(5_000), "n3", IsDown}, Change{ms(6_000), "n4", IsUp})
			jumped(s, 60_000, 35_000, 48_000, "n2", "n4")
			dates(s, func(at int64) int64 { return 60_000 * min(1, at/36_000) })
			for i := range s.h.Samples {
				s.h.Samples[i].Skewed = []string{"n1"}
			}
		}},
		{"all_jump_after_many_were_gone", "clock", func(s *story) {
			for i := range int64(9) {
				name := fmt.Sprintf("n%d", 4+i)
				s.h.Changes = append(s.h.Changes, Change{ms(1_000 + i), name, IsUp}, Change{ms(2_000 + i), name, IsGone})
			}
			jumped(s, 60_000, 35_000, 80_000, "n1", "n2", "n3")
			dates(s, func(at int64) int64 { return 60_000 * min(1, at/36_000) })
		}},
		{"all_swing", "clock", func(s *story) {
			for _, n := range []string{"n1", "n2", "n3"} {
				s.h.Walls = append(s.h.Walls, WallShift{n, ms(32_000), ms(40_000), 5_000, true})
			}
			dates(s, func(at int64) int64 { return max(0, min(5_000, 5_000*(at-33_000))-max(0, at-33_000)/2) })
		}},
	})
}

// TestExpiryUnderBadLinks: a wall clock and a link that is only slow do not excuse a lost lease, a link that loses
// packets does.
func TestExpiryUnderBadLinks(t *testing.T) {
	t.Parallel()
	lost := func(f Fault, bad ...BadLink) func(s *story) {
		return func(s *story) {
			s.op(Op{Process: "w1.1", Func: OpConnect, Node: "n2", Invoke: ms(10)})
			s.submitted("c", 34_990).worked("w1.1", "c", 9, 35_000, 55_000, DidLose, OK)
			s.op(Op{Process: "w1.1", Func: OpLost, Job: "c", Token: token(9), Lease: "c-lease-1.9", Invoke: ms(55_000),
				Kind: "NONE"})
			s.ended("c", "steady", "QUEUED", "")
			f.From, f.To = ms(36_000), ms(50_000)
			s.h.Faults, s.h.BadLinks = append(s.h.Faults, f), bad
		}
	}
	link := func(stalls bool) BadLink {
		return BadLink{From: "w1", To: "n2", Begin: ms(36_000), End: ms(50_000), Stalls: stalls}
	}
	bites(t, []plant{
		{"all_wall_clocks_jumped", "expiry", lost(Fault{Nemesis: "wall-jump-many",
			Targets: []string{"n1", "n2", "n3"}})},
		{"its_link_was_slow", "expiry", lost(Fault{Nemesis: "slow-link", Targets: []string{"w1"}}, link(false))},
		{"another_worker_s_link_was_lossy", "expiry", lost(Fault{Nemesis: "lossy-link", Targets: []string{"w2"}})},
	})
	spares(t, []plant{
		{"its_link_was_lossy", "expiry", lost(Fault{Nemesis: "lossy-link", Targets: []string{"w1"}}, link(true))},
		{"a_node_s_links_were_lossy", "expiry", lost(Fault{Nemesis: "lossy-link", Targets: []string{"n1"}})},
	})
}
