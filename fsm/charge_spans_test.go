package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// TestSpans compares the debt that spans give with that of the charges one by one, while charges begin, change, and end
// in any order.
func TestSpans(t *testing.T) {
	t.Parallel()
	const period = 1000
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		amount := func() state.Int128 { return state.Product(r.Int64N(1000), period) }
		var rows []*state.ChargeRow
		cs := state.ChargeSpans{"c": state.NewSpans(0, period)}
		base, number := amount(), uint64(0)
		for step := range 300 {
			i := r.IntN(len(rows) + 1)
			switch {
			case i == len(rows) || r.IntN(3) == 0:
				number += 1 + r.Uint64N(3)
				rows = append(rows, &state.ChargeRow{Count: "c", Number: number, Amount: r.Int64N(1000)})
				cs.Changed(rows[len(rows)-1])
			case r.IntN(2) == 0:
				rows[i].Then(state.Int128{}.Minus(amount()), state.Int128{})
				rows[i].Amount += r.Int64N(10)
				cs.Changed(rows[i])
			default:
				cs.Ended(rows[i])
				rows = append(rows[:i:i], rows[i+1:]...)
			}
			if cs["c"] == nil { // its leaves are used up
				cs["c"] = state.NewSpans(len(rows), period)
				for _, row := range rows {
					cs.Changed(row)
				}
			}
			want := base
			for _, row := range rows {
				want = row.After(want.Plus(state.Product(row.Amount, period)))
			}
			if got := cs["c"].After(base); got != want {
				t.Fatalf("seed %d, step %d: the spans of %d charges give %v, want %v", seed, step, len(rows), got, want)
			}
		}
	}
}

// BenchmarkSettleCharge measures the end of an attempt that reports other than its estimate, where its key has many
// open attempts.
func BenchmarkSettleCharge(b *testing.B) {
	for _, open := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint("open=", open), func(b *testing.B) {
			kr := &New().keyring
			rule := &state.KeyRuleRow{KeyRule: rota.KeyRule{Name: "k", Rate: 1, PeriodMs: 1, Unit: "u"}}
			c := &state.KeyCountRow{Key: "k"}
			number := uint64(0)
			for range open {
				number++
				kr.Charge(c, rule, number, 5)
			}
			b.ResetTimer()
			for range b.N {
				number++
				kr.Charge(c, rule, number, 5)
				l := &state.LeaseRow{Spent: rota.Costs{"u": 4}}
				l.Token.Counter = number - uint64(open)
				kr.SettleCharge(c, rule, l)
			}
		})
	}
}
