package check

import (
	"testing"
)

func TestPairs(t *testing.T) {
	t.Parallel()
	met := pairs([]Fault{{Nemesis: "b", Lane: 0, From: 0, To: 10}, {Nemesis: "a", Lane: 1, From: 5, To: 6},
		{Nemesis: "a", Lane: 1, From: 10, To: 12}, {Nemesis: "c", Lane: 0, From: 10, To: 20},
		{Nemesis: "c", Lane: 1, From: 19, To: 30}})
	if len(met) != 3 || met[Pair{"a", "b"}] != 1 || met[Pair{"a", "c"}] != 1 || met[Pair{"c", "c"}] != 1 {
		t.Errorf("%v", met)
	}
}
