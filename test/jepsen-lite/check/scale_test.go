package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// replicated makes a long history from a short one: copies one after the other, with separate jobs, workflows and
// leases.
func replicated(t *testing.T, h *History, times int) *History {
	t.Helper()
	all := *h
	all.Ops, all.Final, all.Events, all.Flows, all.FinalFlows = nil, nil, nil, nil, nil
	all.Samples, all.Faults, all.Changes, all.Cuts, all.Streams = nil, nil, nil, nil, nil
	for n := range int64(times) {
		c := renamed(t, h, fmt.Sprintf("r%d-", n))
		shift := n * h.End
		for i := range c.Ops {
			op := &c.Ops[i]
			if op.Invoke += shift; op.Return != never {
				op.Return += shift
			}
			op.Token = tokenLater(op.Token, n)
		}
		for i := range c.Final {
			for k := range c.Final[i].Attempts {
				a := &c.Final[i].Attempts[k]
				a.Token = tokenLater(a.Token, n)
			}
		}
		for i := range c.Faults {
			c.Faults[i].From, c.Faults[i].To = c.Faults[i].From+shift, c.Faults[i].To+shift
		}
		for i := range c.Cuts {
			c.Cuts[i].Begin, c.Cuts[i].End = c.Cuts[i].Begin+shift, c.Cuts[i].End+shift
		}
		for i := range c.Changes {
			c.Changes[i].At += shift
		}
		for i := range c.Samples {
			s := &c.Samples[i]
			s.At, s.Asked, s.Clock = s.At+shift, s.Asked+shift, s.Clock+n*1e9
			s.Digests, s.Date, s.Wall = nil, 0, 0
			if s.Index > 0 {
				s.Index, s.Term = s.Index+uint64(n)*1e9, s.Term+uint64(n)*1e6
			} else {
				s.Clock = 0
			}
		}
		for i := range c.Events {
			e := &c.Events[i]
			e.ID.Index, e.Clock = e.ID.Index+rota.Index(n)*1e9, e.Clock+n*1e9
			if !e.Parent.IsZero() {
				e.Parent.Index += rota.Index(n) * 1e9
			}
		}
		all.Ops, all.Final, all.Events = append(all.Ops, c.Ops...), append(all.Final, c.Final...), append(all.Events,
			c.Events...)
		all.Flows, all.FinalFlows = append(all.Flows, c.Flows...), append(all.FinalFlows, c.FinalFlows...)
		all.Samples, all.Faults = append(all.Samples, c.Samples...), append(all.Faults, c.Faults...)
		all.Changes, all.Cuts = append(all.Changes, c.Changes...), append(all.Cuts, c.Cuts...)
	}
	for _, s := range h.Streams {
		all.Streams = append(all.Streams, Against(s.Name, s.Whole, all.Events, Briefs(all.Events)))
	}
	all.End, all.FaultsEnd = h.End*int64(times), h.End*int64(times-1)+h.FaultsEnd
	return &all
}

func tokenLater(t rota.Token, n int64) rota.Token {
	if !t.IsZero() {
		t.Counter += uint64(n) * 1e9
	}
	return t
}

// renamed returns a copy in which all ids begin with prefix.
func renamed(t *testing.T, h *History, prefix string) *History {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	c := &History{}
	if err := json.Unmarshal(text, c); err != nil {
		t.Fatal(err)
	}
	name := func(s *string) {
		if *s != "" {
			*s = prefix + *s
		}
	}
	tokens := func(output *string, n int64) { // an output is its job's id, and its token
		job, token, ok := strings.Cut(*output, "/")
		parsed := rota.Token{}
		if at := strings.LastIndex(*output, "/"); ok && parsed.UnmarshalText([]byte((*output)[at+1:])) == nil {
			job, token = (*output)[:at], tokenLater(parsed, n).String()
		}
		if ok {
			*output = prefix + job + "/" + token
		}
	}
	n := int64(0)
	fmt.Sscanf(prefix, "r%d-", &n)
	for i := range c.Ops {
		op := &c.Ops[i]
		name(&op.Job)
		name(&op.Flow)
		name(&op.Lease)
		tokens(&op.Output, n)
	}
	for i := range c.Final {
		name(&c.Final[i].ID)
		tokens(&c.Final[i].Output, n)
		for k := range c.Final[i].Attempts {
			name(&c.Final[i].Attempts[k].Lease)
		}
	}
	for i := range c.Events {
		name(&c.Events[i].Job)
		name(&c.Events[i].Flow)
		name(&c.Events[i].Lease)
		c.Events[i].Lease = leaseKeptOf(c.Events[i].Lease)
	}
	for i := range c.Flows {
		name(&c.Flows[i].ID)
	}
	for i := range c.FinalFlows {
		name(&c.FinalFlows[i].ID)
	}
	return c
}

// TestScale judges a history as large as that of a run of half an hour: the history named by ROTA_CHAOS_HISTORY,
// repeated until it has 500,000 operations.
func TestScale(t *testing.T) {
	path := os.Getenv("ROTA_CHAOS_HISTORY")
	if path == "" {
		t.Skip("ROTA_CHAOS_HISTORY must name a history")
	}
	h, err := LoadHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	all := replicated(t, h, 500_000/countOperations(h)+1)
	began := time.Now()
	verdict := Judge(all)
	judged := time.Since(began)
	began = time.Now()
	var page bytes.Buffer
	if err := renderReport(&page, all, verdict); err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("ROTA_CHAOS_REPORT"); keep != "" {
		if err := WriteReport(keep, all, verdict); err != nil {
			t.Fatal(err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d operations of %d jobs, %d faults, %d events: judged in %s, report of %d bytes in %s, %d MiB of the system; %v",
		verdict.Operations, len(all.Final), len(all.Faults), len(all.Events), judged.Round(time.Millisecond),
		page.Len(), time.Since(began).Round(time.Millisecond), m.Sys>>20, verdict.Figures["judge_ms"])
	if page.Len() > 5<<20 {
		t.Errorf("the report has %d bytes", page.Len())
	}
	for _, a := range verdict.Anomalies[:min(8, len(verdict.Anomalies))] {
		t.Errorf("%s: %s", a.Checker, a.Text)
	}
}
