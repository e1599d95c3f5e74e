package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

func sessionOp(letter string, change ...func(*fsmpb.OpenSession)) *fsmpb.Op {
	op := &fsmpb.OpenSession{Id: tokenNamed(letter), Hash: []byte(strings.Repeat(letter, 32))}
	for _, f := range change {
		f(op)
	}
	return &fsmpb.Op{Op: &fsmpb.Op_OpenSession{OpenSession: op}}
}

func asLink(op *fsmpb.OpenSession) { op.Link = true }

func claimOp(letter, secret string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_ClaimSession{ClaimSession: &fsmpb.ClaimSession{Id: tokenNamed(letter),
		Hash: []byte(strings.Repeat(secret, 32))}}}
}

func endSessionOp(letter string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_EndSession{EndSession: &fsmpb.EndSession{Id: tokenNamed(letter)}}}
}

// sessionOf is session s of the holder of a token.
func sessionOf(s, parent string) rota.Principal {
	return rota.SessionPrincipal(tokenNamed(s), actorNamed(parent))
}

// TestSessions checks that a session has its parent's present rights, that what it creates belongs to its parent, that
// its events name both, and that it is invalid after its end.
func TestSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(by(rota.Local, tokenOp(tokenWish("a", access.RoleOperator))))
	b.ok(by(rota.Local, tokenOp(tokenWish("b", access.RoleReader))))
	a := actorNamed("a")
	b.ok(by(a, sessionOp("s")))
	if o := b.ok(by(a, sessionOp("s"))); !o.GetExisted() {
		t.Error("the same session has another row")
	}
	s := sessionOf("s", "a")
	a1 := b.entry(by(s, queueOp("mine")))
	if got := b.QueueTable.Get("mine").By; got != a {
		t.Errorf("the session's queue is %s's", got)
	}
	if e := a1.Events[0]; e.Actor != s {
		t.Errorf("the event names %q, want %q", e.Actor, s)
	}
	b.refuses(rota.KindDenied, "session", by(s, sessionOp("t")))
	b.ok(by(rota.Local, tokenOp(tokenWish("r", access.RoleRoot))))
	b.ok(by(actorNamed("r"), sessionOp("u")))
	b.refuses(rota.KindDenied, "session", by(sessionOf("u", "r"), registerOp("w1", 1, "secret", false)))
	b.refuses(rota.KindDenied, "auth", by(a, revokeOp("u"))) // has no right to change rights
	for _, p := range []rota.Principal{rota.Local, rota.Anonymous} {
		b.refuses(rota.KindDenied, "session", by(p, sessionOp("t")))
	}
	b.refuses(rota.KindUnauthenticated, "credential", by(sessionOf("s", "b"), queueOp("other"))) // of another parent
	b.refuses(rota.KindUnauthenticated, "credential", by(actorNamed("s"), queueOp("other")))     // as a token
	b.refuses(rota.KindConflict, "session", by(actorNamed("b"),
		sessionOp("s"))) // another principal's id
	b.refuses(rota.KindConflict, "session", by(a, sessionOp("s", asLink)))          // another kind
	b.refuses(rota.KindNotFound, "session", by(actorNamed("b"), endSessionOp("s"))) // not its parent
	b.refuses(rota.KindNotFound, "session", by(a, endSessionOp("b")))               // no session
	b.refuses(rota.KindInvalid, "hash", by(a, sessionOp("t", func(o *fsmpb.OpenSession) { o.Hash = nil })))
	b.refuses(rota.KindInvalid, "until", by(a, sessionOp("t", func(o *fsmpb.OpenSession) { o.UntilMs = 1 })))

	b.ok(by(s, endSessionOp("s")))
	b.refuses(rota.KindUnauthenticated, "credential", by(s, queueOp("more")))
	b.refuses(rota.KindConflict, "session", by(a, sessionOp("s"))) // no repeated opening revives it
	b.ok(by(a, endSessionOp("s")))
	b.date(startClock + rota.Date(limits.SessionEnded.Milliseconds()) + 1)
	b.refuses(rota.KindNotFound, "session", by(a, endSessionOp("s")))
	b.refuses(rota.KindUnauthenticated, "credential", by(s, queueOp("more")))
}

// TestSessions_parents checks that a session ends with its parent credential, however that ends, and that its rights
// shrink with its parent's.
func TestSessions_parents(t *testing.T) {
	t.Parallel()
	cert := rota.CertPrincipal("desk", "ann")
	for name, c := range map[string]struct {
		parent rota.Principal
		end    func(*bench)
		kind   rota.Kind
	}{
		"revoked": {actorNamed("a"), func(b *bench) { b.ok(by(rota.Local, revokeOp("a"))) }, rota.KindUnauthenticated},
		"expired": {actorNamed("a"), func(b *bench) { b.date(startClock + 3_600_000) }, rota.KindUnauthenticated},
		"narrowed": {actorNamed("a"), func(b *bench) {
			b.ok(by(rota.Local, roleOp("desk", authz.Everywhere(rota.RightRead))))
		}, rota.KindDenied},
		"blocked": {cert, func(b *bench) { b.ok(by(rota.Local, blockOp("desk", "ann", true))) },
			rota.KindUnauthenticated},
		"blocked once": {cert, func(b *bench) {
			b.ok(by(rota.Local, blockOp("desk", "ann", true)))
			b.ok(by(rota.Local, blockOp("desk", "ann", false)))
		}, rota.KindUnauthenticated},
		"the certificate's date": {cert, func(b *bench) { b.date(startClock + 7_200_000) }, rota.KindUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(by(rota.Local, roleOp("desk", everyRight(rota.RightRead, rota.RightQueue)...)))
			wish := tokenWish("a", "desk")
			wish.ExpiresMs = startClock + 3_600_000
			b.ok(by(rota.Local, tokenOp(wish)))
			b.ok(by(c.parent, sessionOp("s", func(o *fsmpb.OpenSession) { o.UntilMs = startClock + 7_200_000 })))
			s := rota.SessionPrincipal(tokenNamed("s"), c.parent)
			b.ok(by(s, queueOp("mine")))
			b.twin = b.restored()
			b.lead()
			c.end(b)
			b.twin = b.restored()
			b.lead()
			o := b.entry(by(s, queueOp("more"))).Outcomes[0]
			if got := entry.OutcomeError(o); got == nil || got.Kind != c.kind {
				t.Errorf("after its parent's end the session is answered %v, want %s", o, c.kind)
			}
			b.sound()
		})
	}
}

// TestSessions_links checks that a link has no rights, is opened once, and ends soon.
func TestSessions_links(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(by(rota.Local, tokenOp(tokenWish("a", access.RoleOperator))))
	s := sessionOf("s", "a")
	b.ok(by(actorNamed("a"), sessionOp("s", asLink)))
	b.twin = b.restored() // an unclaimed link stays one in a snapshot
	b.lead()
	b.refuses(rota.KindDenied, "queue", by(s, queueOp("mine")))
	b.refuses(rota.KindDenied, "session", by(actorNamed("a"), claimOp("s", "x")))
	b.ok(by(s, claimOp("s", "x")))
	if o := b.ok(by(s, claimOp("s", "x"))); !o.GetExisted() {
		t.Error("claimed twice")
	}
	b.refuses(rota.KindUnauthenticated, "link", by(s, claimOp("s", "y")))
	b.ok(by(s, queueOp("mine")))
	b.ok(by(actorNamed("a"), sessionOp("t", asLink)))
	b.date(startClock + rota.Date(limits.SessionLink.Milliseconds()) + 1)
	b.refuses(rota.KindUnauthenticated, "credential", by(sessionOf("t", "a"), claimOp("t", "x")))
	b.ok(by(s, queueOp("mine2")))
	b.date(startClock + rota.Date(limits.MaxSessionLife.Milliseconds()) + 120_000)
	b.refuses(rota.KindUnauthenticated, "credential", by(s, queueOp("mine3")))
}

// TestSessions_many checks that the oldest of a principal's sessions ends at the limit, and that endless opening is
// refused.
func TestSessions_many(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(by(rota.Local, tokenOp(tokenWish("a", access.RoleOperator))))
	b.ok(by(rota.Local, tokenOp(tokenWish("b", access.RoleOperator))))
	open := func(i int) *fsmpb.Op {
		return by(actorNamed("a"), sessionOp("s", func(o *fsmpb.OpenSession) {
			o.Id = fmt.Sprintf("ssssssssss%c%c", 'a'+i/26, 'a'+i%26)
		}))
	}
	b.ok(by(actorNamed("b"), sessionOp("o")))
	for i := range limits.MaxSessionRows {
		b.ok(open(i))
		live := 0
		for _, id := range b.access.Sessions[actorNamed("a")] {
			if b.access.Tokens.Get(state.TokenID(id)).Revoked.IsZero() {
				live++
			}
		}
		if live != min(i+1, limits.MaxSessions) {
			t.Fatalf("%d sessions count after %d were opened", live, i+1)
		}
	}
	b.refuses(rota.KindExhausted, "session", open(limits.MaxSessionRows))
	b.ok(by(sessionOf("o", "b"), queueOp("mine"))) // another's sessions continue
	b.date(startClock + rota.Date(limits.SessionEnded.Milliseconds()) + 1)
	b.ok(open(limits.MaxSessionRows))
}
