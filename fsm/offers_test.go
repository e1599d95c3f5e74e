package fsm

import (
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// polled registers worker w, which polls with 4 slots, and submits jobs a, b, c.
func polled(b *bench) rota.Session {
	b.t.Helper()
	b.ok(polling(registerOp("w", 4, "w", false)))
	for _, id := range []string{"a", "b", "c"} {
		b.submit(id)
	}
	s, _ := b.View.Session("w")
	return s
}

// TestOffer checks that a polling worker gets leases only while it offers, no more than that, and none for ended ones.
func TestOffer(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench, s rota.Session)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			f(b, polled(b))
		})
	}
	run("rests_until_it_offers", func(b *bench, s rota.Session) {
		if got := b.match(); len(got) != 0 {
			b.t.Fatalf("at rest it got %v", got)
		}
		x, _ := b.View.Why("a", 9)
		if len(x.Reasons) != 1 || x.Reasons[0].Reason != "NO_SLOT_OFFERED" ||
			!strings.Contains(x.Reasons[0].Detail, "offers no slot now") ||
			len(x.WouldRun) != 1 || !strings.Contains(x.WouldRun[0], "acquire") {
			b.t.Fatalf("why: %+v", x)
		}
		if a := b.entry(offerOp("w", s, 7, 2, b.now+8_000)); !a.Offered || len(a.Events) != 0 {
			b.t.Fatalf("offered: %v, events %+v", a.Offered, a.Events)
		}
		got := b.match()
		if w, _ := b.View.Worker("w"); len(got) != 2 || w.Offered != 0 || !w.Polls {
			b.t.Fatalf("it offered 2, got %v, and is %+v", got, w)
		}
		for _, l := range got { // ended leases make no room
			b.ok(verb(1, l))
			b.ok(verb(3, l))
		}
		if got := b.match(); len(got) != 0 {
			b.t.Fatalf("after its leases ended it got %v", got)
		}
	})
	run("its_poll_withdraws", func(b *bench, s rota.Session) {
		b.ok(offerOp("w", s, 7, 2, b.now+8_000))
		b.ok(offerOp("w", s, 8, 1, b.now+8_000)) // a newer one
		b.ok(offerOp("w", s, 7, 0, 0))           // changes nothing
		if w, _ := b.View.Worker("w"); w.Offered != 1 {
			b.t.Fatalf("it offers %d", w.Offered)
		}
		b.ok(offerOp("w", s, 8, 0, 0))
		b.ok(offerOp("w", s, 8, 1, b.now+8_000)) // proposed twice: it is withdrawn
		if w, _ := b.View.Worker("w"); w.Offered != 0 || len(b.match()) != 0 {
			b.t.Fatalf("it offers %d", w.Offered)
		}
	})
	run("is_over_by_itself", func(b *bench, s rota.Session) {
		b.ok(offerOp("w", s, 7, 1, b.now+5_000))
		if b.View.AtRest() {
			b.t.Fatal("no sweep ends its offer")
		}
		b.pass(4_999)
		if w, _ := b.View.Worker("w"); w.Offered != 1 {
			b.t.Fatalf("it offers %d", w.Offered)
		}
		b.pass(1)
		if w, _ := b.View.Worker("w"); w.Offered != 0 || len(b.match()) != 0 {
			b.t.Fatalf("it offers %d", w.Offered)
		}
	})
	run("with_a_stream_it_offers_nothing", func(b *bench, s rota.Session) {
		b.ok(offerOp("w", s, 7, 1, b.now+5_000))
		b.ok(registerOp("w", 4, "w", false))
		b.refuses(rota.KindConflict, "worker", offerOp("w", s, 9, 1, b.now+5_000))
		if w, _ := b.View.Worker("w"); w.Polls || w.Offered != 0 || len(b.match()) != 3 {
			b.t.Fatalf("%+v", w)
		}
	})
	run("of_another_session_is_refused", func(b *bench, s rota.Session) {
		b.ok(offerOp("w", s, 7, 1, b.now+5_000))
		b.ok(polling(registerOp("w", 4, "another", true)))
		if w, _ := b.View.Worker("w"); w.Offered != 0 {
			b.t.Fatalf("the offer of the old process is still there: %+v", w)
		}
		b.refuses(rota.KindStale, "session", offerOp("w", s, 9, 1, b.now+5_000))
		b.refuses(rota.KindStale, "session", offerOp("nobody", s, 9, 1, b.now+5_000))
		b.refuses(rota.KindStale, "session", offerOp("w", 0, 9, 1, b.now+5_000))
	})
	run("refuses", func(b *bench, s rota.Session) {
		b.refuses(rota.KindInvalid, "poll", offerOp("w", s, 0, 1, b.now+5_000))
		b.refuses(rota.KindInvalid, "free", offerOp("w", s, 1, -1, b.now+5_000))
		b.refuses(rota.KindInvalid, "free", offerOp("w", s, 1, math.MaxInt32, b.now+5_000))
		b.refuses(rota.KindInvalid, "until_ms", offerOp("w", s, 1, 1, b.now+9_001))
		b.refuses(rota.KindUnavailable, "offer", offerOp("w", s, 1, 1, b.now))
		b.ok(statusOp("w", rota.WorkerRetired, 0))
		b.refuses(rota.KindStale, "session", offerOp("w", s, 1, 1, b.now+5_000))
	})
	run("attaches_who_knows_the_secret", func(b *bench, s rota.Session) {
		hash := func(secret string) [32]byte {
			return [32]byte(registerOp("w", 1, secret, false).GetRegister().GetSecretHash())
		}
		if got, err := Attach(&b.View, "w", hash("w"), ""); got != s || err != nil {
			b.t.Fatalf("session %d, %v", got, err)
		}
		for _, c := range []struct {
			id   rota.WorkerID
			hash [32]byte
			by   rota.Principal
			kind rota.Kind
		}{{"w", hash("other"), "", rota.KindDenied}, {"w", sha256.Sum256(nil), "", rota.KindDenied},
			{"w", hash("w"), "somebody", rota.KindDenied},
			{"x", hash("w"), "", rota.KindNotFound}} {
			if _, err := Attach(&b.View, c.id, c.hash, c.by); err == nil || err.Kind != c.kind {
				b.t.Fatalf("%+v: %v", c, err)
			}
		}
		same := polling(registerOp("w", 4, "w", false)).GetRegister()
		other := polling(registerOp("w", 5, "w", false)).GetRegister()
		stream := registerOp("w", 4, "w", false).GetRegister()
		if got := []bool{Registered(&b.View, same), Registered(&b.View, other),
			Registered(&b.View, stream)}; !slices.Equal(got, []bool{true, false, false}) {
			b.t.Fatalf("registered: %v", got)
		}
	})
}
