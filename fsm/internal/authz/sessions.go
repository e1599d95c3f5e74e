package authz

import (
	"cmp"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// A browser session is a token that has a parent instead of roles. Its rights are resolved at each call from its
// parent's (Rights.ofSession), and what it creates belongs to its parent (journal.owner). So only its events remain
// after it has ended.

// OpenSession opens a session of the caller. Repeating it gives the same session, unless it has ended.
func (ac *Authority) OpenSession(op *fsmpb.OpenSession) *fsmpb.Outcome {
	if err := ac.unfounded(); err != nil {
		return entry.Refused(err)
	}
	hash, err := sessionHash(op.GetId(), op.GetHash())
	if err != nil {
		return entry.Refused(err)
	}
	parent := ac.s.Journal.Caller.Actor
	if old := ac.Tokens.Get(state.TokenID(op.GetId())); old != nil {
		if old.Parent != parent || old.Hash != hash || old.Link != op.GetLink() || !old.Revoked.IsZero() {
			return entry.Refused(rota.Refusef(rota.KindConflict, "session",
				"session %s exists with other content, or has ended: open one with its own id", op.GetId()))
		}
		return &fsmpb.Outcome{Existed: true}
	}
	now := ac.s.Header.Date()
	until := rota.Date(op.GetUntilMs())
	if until < 0 || until > 0 && until <= now {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "until", "the session would end at %s, and it is %s", until,
			now))
	}
	if ac.Tokens.Len() >= limits.MaxTokens {
		return entry.Refused(refuse.Exhausted("session",
			"%d tokens and sessions are known, no more are taken until some expire", limits.MaxTokens))
	}
	if len(ac.Sessions[parent]) >= limits.MaxSessionRows {
		return entry.Refused(refuse.Exhausted("session",
			"%s has opened %d sessions of late, no more are taken for %s", parent,
			limits.MaxSessionRows, limits.SessionEnded))
	}
	ac.makeRoom(parent)
	t := rota.AccessToken{ID: op.GetId(), By: parent, Parent: parent, Created: ac.s.Header.Now(),
		Expires: ac.sessionEnd(parent, until, limits.MaxSessionLife)}
	if op.GetLink() {
		t.Expires = ac.sessionEnd(parent, until, limits.SessionLink)
	}
	ac.Tokens.Insert(state.TokenID(t.ID), &state.TokenRow{AccessToken: t, Hash: hash, Link: op.GetLink(), Until: until})
	ac.s.Timers.Token.Refile(t.ID, 0, int64(t.Expires))
	ac.keepSession(parent, t.ID)
	ac.ports.Disown(only(rota.TokenPrincipal(t.ID))) // workers of a forgotten token with the same id
	ac.tell(rota.EventAuthChanged, authChanged{What: "session", Name: t.ID, Until: t.Expires, By: parent})
	return &fsmpb.Outcome{}
}

func sessionHash(id string, b []byte) (hash [32]byte, err error) {
	if len(b) != len(hash) {
		return hash, rota.Refusef(rota.KindInvalid, "hash", "hash: got %d bytes, want %d", len(b), len(hash))
	}
	return [32]byte(b), access.CheckTokenID(id)
}

// sessionEnd returns when a session with this lifetime ends if it starts now: not after its parent.
func (ac *Authority) sessionEnd(parent rota.Principal, until rota.Date, life time.Duration) rota.Date {
	end := ac.s.Header.Date() + rota.Date(life/time.Millisecond)
	if until > 0 {
		end = min(end, until)
	}
	if id, ok := parent.Token(); ok {
		end = min(end, ac.Tokens.Get(state.TokenID(id)).Expires)
	}
	return end
}

// makeRoom ends the oldest session of a principal that has its maximum.
func (ac *Authority) makeRoom(parent rota.Principal) {
	var live []string
	for _, id := range ac.Sessions[parent] {
		if ac.Tokens.Get(state.TokenID(id)).Revoked.IsZero() {
			live = append(live, id)
		}
	}
	if len(live) >= limits.MaxSessions {
		ac.endOne(live[0])
	}
}

// ClaimSession gives the session of a link its rights, and replaces its secret with the one that its user generated.
func (ac *Authority) ClaimSession(op *fsmpb.ClaimSession) *fsmpb.Outcome {
	hash, err := sessionHash(op.GetId(), op.GetHash())
	if err != nil {
		return entry.Refused(err)
	}
	r := ac.Tokens.Get(state.TokenID(op.GetId()))
	switch {
	case r == nil || r.Parent == "" || !r.Live(ac.s.Header.Date()):
		return entry.Refused(noCredential())
	case !r.Link && r.Hash == hash:
		return &fsmpb.Outcome{Existed: true}
	case !r.Link:
		return entry.Refused(rota.Refusef(rota.KindUnauthenticated, "link",
			"the link was opened before, each counts once: ask for another one with `rota console`"))
	}
	old := r.Expires
	r = ac.Tokens.Edit(state.TokenID(op.GetId()))
	r.Hash, r.Link, r.Expires = hash, false, ac.sessionEnd(r.Parent, r.Until, limits.MaxSessionLife)
	ac.s.Timers.Token.Refile(r.ID, int64(old), int64(r.Expires))
	ac.tell(rota.EventAuthChanged, authChanged{What: "session", Name: r.ID, Until: r.Expires, By: r.Parent})
	return &fsmpb.Outcome{}
}

// EndSession signs a session out. Repeating it changes nothing.
func (ac *Authority) EndSession(op *fsmpb.EndSession) *fsmpb.Outcome {
	r := ac.Tokens.Get(state.TokenID(op.GetId()))
	if r == nil || r.Parent == "" {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "session",
			"session %.80q is not known: it never was, or has ended", op.GetId()))
	}
	if !r.Revoked.IsZero() {
		return &fsmpb.Outcome{Existed: true}
	}
	ac.endOne(r.ID)
	return &fsmpb.Outcome{}
}

// endOne ends a session that has not ended. Its row stays for a while, so that no repeated opening revives it.
func (ac *Authority) endOne(id string) {
	r := ac.Tokens.Edit(state.TokenID(id))
	old := r.Expires
	r.Revoked, r.Expires = ac.s.Header.Now(), min(old,
		ac.s.Header.Date()+rota.Date(limits.SessionEnded/time.Millisecond))
	ac.s.Timers.Token.Refile(id, int64(old), int64(r.Expires))
	ac.tell(rota.EventAuthChanged, authChanged{What: "session", Name: id, Gone: true, By: r.Parent})
}

// endSessions ends the sessions of a principal whose credential is no longer valid.
func (ac *Authority) endSessions(parent rota.Principal) {
	for _, id := range slices.Clone(ac.Sessions[parent]) {
		if ac.Tokens.Get(state.TokenID(id)).Revoked.IsZero() {
			ac.endOne(id)
		}
	}
}

// keepSession adds a session of a principal, in the order of their opening.
func (ac *Authority) keepSession(parent rota.Principal, id string) {
	if ac.Sessions == nil {
		ac.Sessions = make(map[rota.Principal][]string)
	}
	at, _ := slices.BinarySearchFunc(ac.Sessions[parent], id, ac.sessionOrder)
	ac.Sessions[parent] = slices.Insert(ac.Sessions[parent], at, id)
}

// sessionOrder orders sessions by when they were opened.
func (ac *Authority) sessionOrder(a, b string) int {
	x, y := ac.Tokens.Get(state.TokenID(a)), ac.Tokens.Get(state.TokenID(b))
	return cmp.Or(cmp.Compare(x.Created.Clock, y.Created.Clock), cmp.Compare(a, b))
}

// forgetSession undoes keepSession, while the session is known.
func (ac *Authority) forgetSession(parent rota.Principal, id string) {
	rest := slices.DeleteFunc(ac.Sessions[parent], func(s string) bool { return s == id })
	if ac.Sessions[parent] = rest; len(rest) == 0 {
		delete(ac.Sessions, parent)
	}
}

// OpenSession refuses callers without sessions: the caller must present a credential that can end.
func (j *judgement) openSession(*fsmpb.Op) *rota.Error {
	if access.MayHaveSessions(j.session) {
		return nil
	}
	return rota.Refusef(rota.KindDenied, "session",
		"%s opens no browser sessions: only a token or a client's certificate does", j.session)
}

// ClaimSession allows the holder of a link to open it.
func (j *judgement) claimSession(op *fsmpb.Op) *rota.Error {
	if id, _, ok := j.session.Session(); ok && id == op.GetClaimSession().GetId() {
		return nil
	}
	return rota.Refusef(rota.KindDenied, "session", "only who holds the link to a session opens it")
}

// EndSession allows a session to be ended by itself and by its parent. Other callers revoke it.
func (j *judgement) endSession(op *fsmpb.Op) *rota.Error {
	id := op.GetEndSession().GetId()
	if self, _, ok := j.session.Session(); ok && self == id {
		return nil
	}
	if r := j.ac.Tokens.Get(state.TokenID(id)); r != nil && r.Parent != "" && r.Parent == j.session {
		return nil
	}
	return rota.Refusef(rota.KindNotFound, "session", "session %.80q is not known: it never was, or has ended", id)
}

// registersItself is registers, but refuses browser sessions: a worker would outlive one.
func (j *judgement) registersItself(op *fsmpb.Op) *rota.Error {
	if _, _, ok := j.session.Session(); ok {
		return rota.Refusef(rota.KindDenied, "session",
			"a browser session registers no workers: register them with the credential that it was opened with")
	}
	return j.registers(op)
}

// checkSession checks the row of a session, and that it is counted.
func (ac *Authority) checkSession(r *state.TokenRow, fault func(format string, args ...any)) {
	if err := access.CheckTokenID(r.ID); err != nil {
		fault("session %s is unsound: %v", r.ID, err)
	}
	ids := ac.Sessions[r.Parent]
	if !access.MayHaveSessions(r.Parent) || len(r.Roles)+len(r.Tenants)+len(r.Queues) > 0 || r.WorkerPrefix != "" {
		fault("session %s of %s has rights of its own", r.ID, r.Parent)
	}
	if id, ok := r.Parent.Token(); ok && r.Revoked.IsZero() {
		p := ac.Tokens.Get(state.TokenID(id))
		if p == nil || !p.Revoked.IsZero() || p.Parent != "" || p.Expires < r.Expires {
			fault("session %s outlives its parent %s", r.ID, r.Parent)
		}
	}
	if role, name, ok := r.Parent.Cert(); ok && r.Revoked.IsZero() &&
		ac.Blocks.Get(state.BlockKeyOf(role, name)) != nil {
		fault("session %s outlives its parent %s", r.ID, r.Parent)
	}
	if !slices.Contains(ids, r.ID) || len(ids) > limits.MaxSessionRows {
		fault("I4: session %s is not among the %d of %s", r.ID, len(ids), r.Parent)
	}
}
