package check

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
)

// gateLife is the life of a gate according to the events.
type gateLife struct {
	*NodeFacts
	job string
	// signals are the ids of the accepted signals, until is the date of the gate's timeout.
	signals []string
	until   rota.Date
	end     *SeenEvent
	ends    int
	faults  []string
}

func (g *gateLife) say(format string, args ...any) {
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

// checkGates checks that each gate is opened once: by the signal that was acknowledged as the first, or at its
// deadline, and not before (SPEC §23.1). Workflows with gates are not run again.
func checkGates(v *view) (found []Anomaly) {
	if len(v.gates) == 0 || len(v.Events) >= EventsRetained {
		return nil // the workflows' checker reports events that are no longer there
	}
	gates := make(map[string]*gateLife, len(v.gates))
	for job, n := range v.gates {
		gates[job] = &gateLife{NodeFacts: n, job: job}
	}
	for i := range v.Events {
		if g := gates[v.Events[i].Job]; g != nil {
			g.told(&v.Events[i])
		}
	}
	opened, timedOut := 0, 0
	for _, job := range v.ids {
		g := gates[job]
		if g == nil {
			continue
		}
		g.judge(v)
		for _, text := range g.faults {
			found = append(found, Anomaly{IDs: []string{job}, Text: "gate " + job + ": " + text})
		}
		if len(g.signals) > 0 {
			opened++
		} else if g.end != nil && g.end.Reason == "GATE_TIMEOUT" {
			timedOut++
		}
	}
	v.figures["gates"], v.figures["gates_signalled"], v.figures["gates_timed_out"] = len(gates), opened, timedOut
	return found
}

func (g *gateLife) told(e *SeenEvent) {
	switch e.Kind {
	case "gateWaiting":
		g.until = e.Date
		if (e.Date != 0) != (g.TimeoutMs > 0) {
			g.say("event %s has it wait until %d, its time is %d ms", e.ID, e.Date, g.TimeoutMs)
		}
	case "gateSignalled":
		if g.signals = append(g.signals, e.Of); g.end != nil {
			g.say("event %s takes signal %s after its end by event %s", e.ID, e.Of, g.end.ID)
		}
	case "jobCompleted", "jobDead", "jobExpired", "jobCancelled":
		g.end = e
		g.ends++
		g.ended(e)
	case "jobAssigned", "jobRunning", "jobDelayed":
		g.say("event %s (%s): it has no job", e.ID, e.Kind)
	}
}

// ended requires a cause for its end.
func (g *gateLife) ended(e *SeenEvent) {
	signalled := len(g.signals) > 0
	switch {
	case e.Kind == "jobCancelled": // with its workflow, or as a parent failed
	case e.Reason == "GATE_TIMEOUT":
		if signalled || g.until == 0 || e.Date < g.until {
			g.say("event %s ends it for its time at date %d, which is up at %d; signals: %v", e.ID, e.Date, g.until,
				g.signals)
		}
		if (e.Kind == "jobCompleted") != (g.OnTimeout == "complete") {
			g.say("event %s (%s) ends it for its time, its on_timeout is %s", e.ID, e.Kind, g.OnTimeout)
		}
	case !signalled:
		g.say("event %s (%s, %s) ends it without a signal", e.ID, e.Kind, e.Reason)
	}
}

// judge compares the events with the answers to the signals and with the final state.
func (g *gateLife) judge(v *view) {
	if len(g.signals) > 1 || g.ends > 1 {
		g.say("signals %v were accepted, and it ended %d times", g.signals, g.ends)
	}
	flow, node, _ := rota.SplitNodeJobID(rota.JobID(g.job))
	counts := ""
	if len(g.signals) > 0 {
		counts = g.signals[0]
	}
	first := (*Op)(nil)
	for _, op := range v.flows[string(flow)] {
		switch {
		case op.Func != OpSignal || op.Did != node:
		case op.Outcome == OK && op.Output != counts:
			g.say("signal %s was accepted, answered as %s at %s, and the events have %q", op.Output, op.Node,
				seconds(op.Return), counts)
		case op.Outcome == OK && !op.Existed && first != nil:
			g.say("signal %s was accepted for the first time from %s at %s and from %s at %s", op.Output, first.Process,
				seconds(first.Return), op.Process,
				seconds(op.Return))
		case op.Outcome == OK && !op.Existed:
			first = op
		case op.Outcome == Refused && op.Kind == "CONFLICT" && op.Output == counts:
			g.say("signal %s counts, and %s refused it at %s: %s", op.Output, op.Node, seconds(op.Return), op.Text)
		}
	}
	if j := v.final[g.job]; j != nil && j.State == "COMPLETED" && g.end != nil && g.end.Reason != "GATE_TIMEOUT" &&
		j.Output != counts {
		g.say("its output is %q, the signal %q brought that for one", Short(j.Output), counts)
	}
	asked := func(op *Op) bool { return op.Func == OpSignal && op.Did == node && op.Output == counts }
	if counts != "" && !slices.ContainsFunc(v.flows[string(flow)], asked) {
		g.say("signal %s was accepted, but never sent", counts)
	}
}
