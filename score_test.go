package rota

import (
	"encoding/json"
	"math"
	"testing"
)

func TestScore(t *testing.T) {
	t.Parallel()
	double := func(x float64) Score { return Score(math.Float64bits(x)) }
	for _, c := range []struct {
		score Score
		want  string
	}{
		{0, "0"}, {5_000, "5000"}, {-4, "-4"}, {283_333_333, "283333333"},
		// The largest score that a market queue can give: ten years' age at the steepest slope.
		{Score(1_000_000 * int64(MaxDuration.Milliseconds())), "315360000000000000"},
		{double(2), "2.0"}, {double(1.25), "1.25"}, {double(300), "300.0"}, {double(1e-9), "1e-09"},
		{double(0.30000000000000004), "0.30000000000000004"},
		{math.MaxInt64, "9223372036854775807"}, // the bits of no number
	} {
		text, err := json.Marshal(Decision{Score: c.score})
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatalf("score %d makes no JSON: %v", int64(c.score), err)
		}
		if got := string(fields["score"]); got != c.want || c.score.String() != c.want {
			t.Errorf("score %d is shown as %s and %s, want %s", int64(c.score), got, c.score, c.want)
		}
		var back Decision
		if err := json.Unmarshal(text, &back); err != nil || back.Score != c.score {
			t.Errorf("score %s reads back as %d (%v), want %d", c.want, int64(back.Score), err, int64(c.score))
		}
	}
	for _, text := range []string{`"5"`, `true`, `-1.5`, `0.0`, `1e999`, `99999999999999999999`} {
		var s Score
		if err := s.UnmarshalJSON([]byte(text)); KindOf(err) != KindInvalid || s != 0 {
			t.Errorf("score %s gives %d, %v: want a refusal", text, int64(s), err)
		}
	}
}
