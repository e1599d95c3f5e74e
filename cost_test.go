package rota

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestCosts_json reads and writes amounts as people and encoders write them.
func TestCosts_json(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":8000}`: "a=8000", `{"a":"0.25","b":1}`: "a=0.25,b=1", `{"a":1e3}`: "a=1000", `{"a":1.5e-05}`: "a=0.000015",
		`{"a":1E-6}`: "a=0.000001", `{"a":0.1000000}`: "a=0.1", `{}`: "", `null`: "", `{"a":1000000000000}`: "a=1000000000000",
		`{"a":12.5e0}`: "a=12.5", `{"a":0}`: "a=0",
	} {
		var c Costs
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.String() != want {
			t.Errorf("%s: %v, %v", text, c, err)
			continue
		}
		again, err := json.Marshal(c)
		var back Costs
		if err != nil || json.Unmarshal(again, &back) != nil || back.String() != want {
			t.Errorf("%s becomes %s: %v", text, again, err)
		}
	}
	for text, part := range map[string]string{
		`{"a":0.1234567}`: "six digits", `{"a":1e-7}`: "six digits", `{"a":-1}`: "use a decimal", `{"a":"x"}`: "use a decimal",
		`{"a":1000000000000.000001}`: "greatest amount", `{"a":1e300}`: "use a decimal", `{"a":1e13}`: "greatest amount",
		`{"a":null}`: "use a decimal", `{"a":1,"b":2,"a":1}`: "costs.a: given twice, want it once", `{"a":true}`: "use a decimal", `[]`: "use an object", `{"a":{}}`: "use a decimal",
		`{"a":""}`: "use a decimal", `{"a":"."}`: "use a decimal", `{"a":"1."}`: "use a decimal", `{"a":"e5"}`: "use a decimal", `{"a":"1.2.3e4"}`: "use a decimal",
	} {
		var c Costs
		if err := json.Unmarshal([]byte(text), &c); KindOf(err) != KindInvalid || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, %v; want %q", text, c, err, part)
		}
	}
}

// TestCosts_check lists refused costs.
func TestCosts_check(t *testing.T) {
	t.Parallel()
	nine := Costs{}
	for _, name := range strings.Split("abcdefghi", "") {
		nine[name] = 1
	}
	for part, c := range map[string]Costs{
		"too many costs: got 9, maximum 8": nine, `got the name ""`: {"": 1}, `got the name "a b"`: {"a b": 1},
		`got the name "a:b"`: {"a:b": 1}, `got the name "a=b"`: {"a=b": 1}, "a must be between 0": {"a": -1},
		"between 0 and 1000000000000, got 1000000000000.000001": {"a": MaxCost + 1},
	} {
		if err := c.Check("costs"); KindOf(err) != KindInvalid || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %v; want %q", c, err, part)
		}
	}
	if _, err := ParseCosts("costs", []string{"a=1", "a=2"}); KindOf(err) != KindInvalid {
		t.Errorf("a name twice: %v", err)
	}
}
