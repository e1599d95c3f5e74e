package loadgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// flowOf makes a workflow of "id:ms:parent,parent".
func flowOf(nodes ...string) *rota.WorkflowSpec {
	spec := &rota.WorkflowSpec{}
	for _, text := range nodes {
		parts := strings.Split(text+"::", ":")
		n := rota.NodeSpec{ID: parts[0], JobSpec: rota.NewJobSpec("t", nil)}
		ms := int64(0)
		_, _ = fmt.Sscan(parts[1], &ms)
		n.Simulate = millis.Duration(ms)
		if parts[2] != "" {
			n.Parents = strings.Split(parts[2], ",")
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	return spec
}

func TestFlowBounds(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name                 string
		nodes                []string
		workers, slots       int
		critical, area, list int64
	}{
		{"one", []string{"a:100"}, 1, 1, 100, 100, 100},
		{"chain", []string{"a:10", "b:20:a", "c:30:b"}, 2, 2, 60, 15, 60},
		{"fan", []string{"a:10", "b:20", "c:30", "d:40"}, 1, 2, 40, 50, 60},
		{"diamond", []string{"a:10", "b:20:a", "c:50:a", "d:5:b,c"}, 1, 2, 65, 43, 65},
		{"no_slot_left", []string{"a:10", "b:20:a", "c:50:a", "d:5:b,c"}, 1, 1, 65, 85, 85},
		// c has the slot when d and e become ready, in this order.
		{"order_of_readiness", []string{"a:10", "b:5", "c:40:b", "d:40:a", "e:40:a"}, 1, 2, 50, 68, 85},
		{"nothing_to_do", []string{"a:0", "b:0:a"}, 1, 1, 0, 0, 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			f := &FlowPlan{Workers: one.workers, Slots: one.slots, TimeScale: 1}
			b, err := f.Flow("f", flowOf(one.nodes...))
			if err != nil {
				t.Fatal(err)
			}
			if b.criticalMs != one.critical || b.areaMs != one.area || b.listMs != one.list {
				t.Errorf("critical path %d, area %d, list %d; want %d, %d, %d", b.criticalMs, b.areaMs, b.listMs,
					one.critical, one.area, one.list)
			}
		})
	}
}

// Processors bound the area if there are fewer of them than of slots' time, and a node that no worker could hold is
// refused before anything runs.
func TestFlowBounds_processors(t *testing.T) {
	t.Parallel()
	spec := flowOf("a:100", "b:100")
	spec.Nodes[0].CPUMilli, spec.Nodes[1].CPUMilli = 2_000, 4_000
	f := &FlowPlan{Workers: 1, Slots: 4, TimeScale: 1}
	b, err := f.Flow("f", spec)
	if err != nil || b.areaMs != 150 {
		t.Errorf("area %+v, %v; want 150", b, err)
	}
	f.Slots = 3
	if _, err := f.Flow("f", spec); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a node of four processors at workers of three: %v", err)
	}
}

// Without --time-scale the greater bound becomes --bound.
func TestFlowScale(t *testing.T) {
	t.Parallel()
	f := &FlowPlan{Workers: 1, Slots: 2, Bound: 10_000_000_000}
	b, err := f.Flow("f", flowOf("a:1000", "b:2000:a", "c:500:a"))
	if err != nil || b.criticalMs != 10_000 || b.scale < 3.33 || b.scale > 3.34 {
		t.Errorf("%+v, %v", b, err)
	}
}
