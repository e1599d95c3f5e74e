package main

import "slices"

// token gives an operation's token its number, from 1; 0 for none.
func (s *search) token(op *Op) uint16 {
	if op.Token.IsZero() {
		return 0
	}
	return uint16(slices.Index(s.tokens, op.Token) + 1)
}

// step gives the states that an operation may lead to, none if it cannot have
// had this outcome in this state. An open lease may have run out before it.
func (s *search) step(now life, op *Op) []life {
	var next []life
	switch op.Func {
	case opSubmit:
		next = submitted(now, op)
	case opStart, opGrant:
		next = s.leased(now, op)
	case opCancel:
		next = cancelledBy(now, op)
	case opReport:
		next = s.reported(now, op)
	case opGet, opWait:
		next = s.seen(now, op)
	}
	if s.mortal && now.phase == live && op.Func != opSubmit {
		// The last attempt may have run out, or failed, unseen.
		gone := life{phase: dead, last: now.last}
		next = append(next, s.stepDead(gone, op)...)
	}
	return next
}

func (s *search) stepDead(gone life, op *Op) []life {
	switch op.Func {
	case opCancel:
		return cancelledBy(gone, op)
	case opReport:
		return s.reported(gone, op)
	case opGet, opWait:
		return s.seen(gone, op)
	default:
		return nil
	}
}

func submitted(now life, op *Op) []life {
	switch {
	case op.Outcome == Refused && now.phase != absent && (op.Kind == "EXHAUSTED" || op.Kind == "MODE"):
		return nil // a known id is answered before anything is asked of admission (SPEC §4.1)
	case op.Outcome == Refused:
		return []life{now}
	case now.phase == absent:
		// A call may have been made twice within: existed is then its own first try.
		return []life{{phase: live}}
	case op.Outcome == OK && !op.Existed:
		return nil // made twice
	default:
		return []life{now}
	}
}

func (s *search) leased(now life, op *Op) []life {
	t := s.token(op)
	switch {
	case now.phase == live && t > now.last:
		return []life{{live, t, t}}
	case now.phase == live && t == now.last && now.holder == t:
		return []life{now}
	default:
		return nil
	}
}

func cancelledBy(now life, op *Op) []life {
	gone := life{phase: cancelled, last: now.last}
	switch {
	case op.Outcome == Unknown && now.phase == live:
		return []life{gone, now}
	case op.Outcome == Unknown:
		return []life{now}
	case op.Outcome == OK && (now.phase == live || now.phase == cancelled):
		return []life{gone}
	case op.Outcome == Refused && (op.Kind == "NOT_FOUND") == (now.phase == absent) && now.phase != live:
		return []life{now}
	default:
		return nil
	}
}

// reported is a worker's outcome of its lease.
func (s *search) reported(now life, op *Op) []life {
	t := s.token(op)
	open := now.phase == live && now.holder == t
	after, done := life{phase: live, last: t}, []life(nil)
	switch op.Did {
	case didComplete:
		after = life{phase: completed, last: t}
	case didNoRetry:
		after = life{phase: dead, last: t}
	}
	if open {
		done = append(done, after)
		if op.Did == didFail && s.mortal {
			done = append(done, life{phase: dead, last: t})
		}
	}
	switch {
	case op.Outcome == OK && now.phase == completed && op.Did == didComplete && now.last == t:
		return []life{now}
	case op.Outcome == OK:
		return done
	case op.Outcome == Unknown:
		return append(done, now)
	case open: // refused: its lease must have run out
		return []life{{phase: live, last: now.last}}
	case now.phase == absent || now.phase == completed && op.Did == didComplete && now.last == t:
		return nil
	default:
		return []life{now}
	}
}

// seen is what a read showed.
func (s *search) seen(now life, op *Op) []life {
	is := func(p phase) []life {
		if now.phase == p {
			return []life{now}
		}
		return nil
	}
	if op.Outcome == Refused {
		if op.Kind != "NOT_FOUND" {
			return []life{now}
		}
		return is(absent)
	}
	switch op.State {
	case "BLOCKED", "DELAYED", "QUEUED":
		if now.phase != live {
			return nil
		}
		return []life{{phase: live, last: now.last}}
	case "ASSIGNED", "RUNNING":
		return s.leased(now, op)
	case "COMPLETED":
		if now.last == 0 || op.Output != op.Job+"/"+s.tokens[now.last-1].String() {
			return nil // it was not this attempt that was accepted
		}
		return is(completed)
	case "DEAD":
		return is(dead)
	case "CANCELLED":
		return is(cancelled)
	default:
		return is(expired)
	}
}
