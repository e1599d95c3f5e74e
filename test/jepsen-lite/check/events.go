package check

import (
	"fmt"
	"strings"

	"github.com/rotasched/rota"
)

// checkEvents compares every reader's events with the longest stream: all nodes return the same events, and no follower
// misses one or gets one twice (SPEC §12).
func checkEvents(v *view) (found []Anomaly) {
	say := func(format string, args ...any) {
		found = append(found, Anomaly{Text: fmt.Sprintf(format, args...)})
	}
	least, breaks, wholes := 0, 0, 0
	for i := range v.Streams {
		s := &v.Streams[i]
		breaks += s.Breaks
		for _, text := range streamFaults(v.Events, s) {
			say("%s", text)
		}
		if !s.Whole {
			continue
		}
		// A later reading returns at least the events of earlier ones.
		if n := s.told(); n < least {
			say("node %s has %d events, fewer than the %d reported before", s.Name, n, least)
		} else {
			least = n
		}
		wholes++
	}
	if wholes < v.Nodes {
		say("the events of %d nodes were read, of %d they should", wholes, v.Nodes)
	}
	found = append(found, eventsInOrder(v.Events)...)
	v.figures["events"], v.figures["events_resumed"] = len(v.Events), breaks
	if len(v.Events) >= EventsRetained {
		v.undecided = append(v.undecided, "events: the oldest are no longer retained, jobs were not held against them")
		return found
	}
	return append(found, checkJobEvents(v)...)
}

// streamFaults describes how a stream differs from the kept events.
func streamFaults(events []SeenEvent, s *Stream) (faults []string) {
	if s.Error != "" {
		faults = append(faults, fmt.Sprintf("the stream of %s ended early: %s", s.Name, s.Error))
	}
	for i := range s.Odd {
		e := &s.Odd[i]
		faults = append(faults, fmt.Sprintf(
			"%s received event %s (%s of job %q) that others did not receive, or not in this form",
			s.Name, e.ID, e.Kind, e.Job))
	}
	next := 0
	for _, r := range s.Runs {
		if r.From > next {
			faults = append(faults, fmt.Sprintf("%s has a gap of %d events after %s: %s is next", s.Name, r.From-next,
				idAt(events, next-1), idAt(events, r.From)))
		}
		if r.From < next {
			faults = append(faults, fmt.Sprintf("%s received %s after %s: again, or out of order", s.Name,
				idAt(events, r.From), idAt(events, next-1)))
		}
		next = r.From + r.Count
	}
	if !s.Whole && len(events) > 0 && s.Error == "" && next == 0 {
		faults = append(faults, fmt.Sprintf("%s received no event", s.Name))
	}
	return faults
}

func idAt(events []SeenEvent, i int) rota.EventID {
	if i < 0 || i >= len(events) {
		return rota.EventID{}
	}
	return events[i].ID
}

// eventsInOrder requires ids that grow, a clock that does not fall, each entry to begin with the state that the one
// before left, parents that are earlier events about the same job or workflow, and no event that contradicts itself.
func eventsInOrder(events []SeenEvent) (found []Anomaly) {
	say := func(e *SeenEvent, format string, args ...any) {
		text := fmt.Sprintf("event %s (%s): ", e.ID, e.Kind) + fmt.Sprintf(format, args...)
		found = append(found, Anomaly{IDs: []string{e.Job}, Text: text})
	}
	about := make(map[rota.EventID]string, len(events))
	for i := range events {
		e := &events[i]
		if i > 0 {
			before := &events[i-1]
			if e.ID.Compare(before.ID) <= 0 {
				say(e, "it comes after %s", before.ID)
			}
			if e.Clock < before.Clock {
				say(e, "its clock is %d, and %d that of %s before it", e.Clock, before.Clock, before.ID)
			}
			follows := rota.EventID{Incarnation: e.ID.Incarnation, Index: e.ID.Index}
			if e.ID.Index == before.ID.Index {
				follows.Seq = before.ID.Seq + 1
			}
			if e.ID != follows {
				say(e, "the event before it in its entry is missing: %s comes instead", before.ID)
			}
			if text := hashesBroken(before, e); text != "" {
				say(e, "%s", text)
			}
		}
		if e.Wrong != "" {
			say(e, "%s", e.Wrong)
		}
		subject := e.subject()
		if of, known := about[e.Parent]; !e.Parent.IsZero() &&
			(!known && i > 0 && e.Parent.Compare(events[0].ID) >= 0 ||
				known && of != subject) {
			say(e, "its parent %s is not an earlier event about %s", e.Parent, subject)
		}
		about[e.ID] = subject
	}
	return found
}

// subject returns the object that an event is about: the workflow if it is a workflow's own event, also of a node,
// otherwise the job.
func (e *SeenEvent) subject() string {
	if e.Flow != "" && (strings.HasPrefix(e.Kind, "workflow") || strings.HasPrefix(e.Kind, "gate")) {
		return "workflow " + e.Flow
	}
	return "job " + e.Job
}

// hashesBroken compares the state's hashes of two neighbours: events of one entry have the same, and the next entry's
// begin where those end.
func hashesBroken(a, b *SeenEvent) string {
	switch {
	case a.ID.Index == b.ID.Index && (a.Prior != b.Prior || a.Post != b.Post):
		return fmt.Sprintf("its entry leads from state %s to %s, and for %s from %s to %s", b.Prior, b.Post, a.ID,
			a.Prior, a.Post)
	case a.ID.Incarnation == b.ID.Incarnation && a.ID.Index+1 == b.ID.Index && a.Post != b.Prior:
		return fmt.Sprintf("the state before it is %s, and %s after %s", b.Prior, a.Post, a.ID)
	default:
		return ""
	}
}
