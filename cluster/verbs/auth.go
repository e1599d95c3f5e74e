package verbs

import (
	"context"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// AuthVerbs are the operations on rights: tokens, roles, blocked certificates.
type AuthVerbs struct {
	n *Host
}

const (
	// CountsWithin bounds how long the answer to a change of rights waits for the other members to apply it; countsLook
	// and maxCountsLook bound the pause between two requests to one of them. Members apply it within milliseconds, or
	// are far behind.
	CountsWithin  = time.Second
	countsLook    = 2 * time.Millisecond
	maxCountsLook = 50 * time.Millisecond
)

// NewAuth returns the verbs on rights.
func NewAuth(h *Host) AuthVerbs { return AuthVerbs{h} }

// InitAuth creates the first token, after which callers without one have no rights; a reset creates another one at any
// time. Repeating the call returns the same token.
func (av *AuthVerbs) InitAuth(ctx context.Context, t rota.AccessToken, hash [32]byte,
	reset bool) (rota.AccessToken, error) {
	return av.makeToken(ctx, t.ID, &fsmpb.Op{Op: &fsmpb.Op_InitAuth{InitAuth: &fsmpb.InitAuth{Token: tokenOp(&t, hash),
		Reset_: reset}}})
}

// CreateToken creates a token identified by the hash of its secret. Repeating the call returns the same token, unless
// it was revoked.
func (av *AuthVerbs) CreateToken(ctx context.Context, t rota.AccessToken, hash [32]byte) (rota.AccessToken, error) {
	return av.makeToken(ctx, t.ID, &fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: tokenOp(&t, hash)}})
}

func tokenOp(t *rota.AccessToken, hash [32]byte) *fsmpb.CreateToken {
	return &fsmpb.CreateToken{Id: t.ID, Hash: hash[:], Roles: t.Roles, Tenants: t.Tenants, Queues: t.Queues,
		WorkerPrefix: t.WorkerPrefix,
		ExpiresMs:    int64(t.Expires)}
}

// makeToken proposes a token and reads it.
func (av *AuthVerbs) makeToken(ctx context.Context, id string, op *fsmpb.Op) (rota.AccessToken, error) {
	return change(ctx, av, op, func(a *fsm.Access) rota.AccessToken {
		made, _ := a.Token(id)
		return made
	})
}

// AccessTokens lists the tokens that have not expired, including revoked ones.
func (av *AuthVerbs) AccessTokens(ctx context.Context, opt peer.ReadOptions) ([]rota.AccessToken, rota.ReadAt, error) {
	return readAccess(ctx, av, opt, func(a *fsm.Access) (tokens []rota.AccessToken) {
		a.Tokens("", func(t rota.AccessToken) bool {
			tokens = append(tokens, t)
			return true
		})
		return tokens
	})
}

// RevokeToken revokes a token permanently; revoking it again is not an error.
func (av *AuthVerbs) RevokeToken(ctx context.Context, id string) error {
	return av.propose(ctx, &fsmpb.Op{Op: &fsmpb.Op_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: id}}})
}

// SetRole creates a role, or replaces its grants and limits.
func (av *AuthVerbs) SetRole(ctx context.Context, role rota.Role) (rota.Role, error) {
	op := &fsmpb.SetRole{Name: role.Name, MaxQueues: role.MaxQueues, MaxTenants: role.MaxTenants,
		MaxWorkers:   role.MaxWorkers,
		MaxWorkflows: role.MaxWorkflows, MaxTokens: role.MaxTokens, MaxSchedules: role.MaxSchedules,
		MaxBatches: role.MaxBatches, MaxWebhooks: role.MaxWebhooks}
	for _, g := range role.Grants {
		op.Grants = append(op.Grants, &fsmpb.Grant{Right: uint32(g.Right), Tenant: g.Tenant, Queue: g.Queue})
	}
	return change(ctx, av, &fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: op}}, func(a *fsm.Access) rota.Role {
		set, _ := a.Role(role.Name)
		return set
	})
}

// Roles lists the roles, including the built-in ones.
func (av *AuthVerbs) Roles(ctx context.Context, opt peer.ReadOptions) ([]rota.Role, rota.ReadAt, error) {
	return readAccess(ctx, av, opt, (*fsm.Access).Roles)
}

// DeleteRole deletes a role: its holders lose the rights that it grants.
func (av *AuthVerbs) DeleteRole(ctx context.Context, name string) error {
	return av.propose(ctx, &fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: name}}})
}

// SetBlock blocks or unblocks the certificates of a role and a name.
func (av *AuthVerbs) SetBlock(ctx context.Context, role, name string, blocked bool) error {
	return av.propose(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetBlock{SetBlock: &fsmpb.SetBlock{Role: role, Name: name,
		Blocked: blocked}}})
}

// Blocks lists the blocked certificates.
func (av *AuthVerbs) Blocks(ctx context.Context, opt peer.ReadOptions) ([]rota.Block, rota.ReadAt, error) {
	return readAccess(ctx, av, opt, (*fsm.Access).Blocks)
}

// SetAnonymous sets the roles of callers without a credential.
func (av *AuthVerbs) SetAnonymous(ctx context.Context, roles []string) error {
	return av.propose(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetAnonymous{SetAnonymous: &fsmpb.SetAnonymous{Roles: roles}}})
}

// propose is change for operations without a result.
func (av *AuthVerbs) propose(ctx context.Context, op *fsmpb.Op) error {
	_, index, err := av.n.ProposeOne(ctx, op)
	if err == nil {
		av.awaitMembers(ctx, index)
	}
	return err
}

// change proposes a change of rights. It returns the result of of, read from the first table that includes the change,
// once the change is in force on every member that answers.
func change[T any](ctx context.Context, av *AuthVerbs, op *fsmpb.Op, of func(*fsm.Access) T) (T, error) {
	_, index, err := av.n.ProposeOne(ctx, op)
	if err != nil {
		var none T
		return none, err
	}
	value, _, err := readAccess(ctx, av, peer.ReadOptions{MinIndex: index}, of) // first: waiting may reach the deadline
	av.awaitMembers(ctx, index)
	return value, err
}

// awaitMembers waits until this node and every other member that answers has applied an index, for as long as the
// caller does, up to countsWithin. It cannot fail: a change in the log is in force, only not everywhere at once
// (SECURITY §1.20).
func (av *AuthVerbs) awaitMembers(ctx context.Context, index rota.Index) {
	ctx, done := caller.Until(ctx, av.n.Life)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, av.n.CountsWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range av.n.Servers() {
		if id != av.n.Node {
			all.Go(func() { av.awaitMember(ctx, id, index) })
		}
	}
	_ = av.n.Replica.WaitApplied(ctx, index)
	all.Wait()
}

// awaitMember polls a member until it has applied an index. It gives up on a member that does not answer, or whose
// state is being rebuilt, which takes longer than any caller waits.
func (av *AuthVerbs) awaitMember(ctx context.Context, id rota.NodeID, index rota.Index) {
	for pause := countsLook; ; pause = min(2*pause, maxCountsLook) {
		applied, ok := av.n.AppliedOn(ctx, id)
		if !ok || applied >= index {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// readAccess is read on the table that applying published last. An object that a later entry deleted again is returned
// empty.
func readAccess[T any](ctx context.Context, av *AuthVerbs, opt peer.ReadOptions,
	f func(*fsm.Access) T) (T, rota.ReadAt, error) {
	rp := av.n.Replica
	return replica.Read(ctx, rp, opt, func(*fsm.View) (T, error) {
		if a := rp.Access(); a != nil {
			return f(a), nil
		}
		var none T
		return none, fault.NoLeader(nil)
	})
}

// SetIssuer adds an identity provider whose tokens are accepted, or changes which of its tokens are accepted.
func (av *AuthVerbs) SetIssuer(ctx context.Context, i rota.Issuer) (rota.Issuer, error) {
	op := &fsmpb.SetIssuer{Url: i.URL, Audience: i.Audience, Ca: i.CA}
	for _, m := range i.Maps {
		op.Maps = append(op.Maps, &fsmpb.ClaimRole{Claim: m.Claim, Value: m.Value, Role: m.Role})
	}
	return change(ctx, av, &fsmpb.Op{Op: &fsmpb.Op_SetIssuer{SetIssuer: op}}, func(a *fsm.Access) rota.Issuer {
		set, _ := a.Issuer(i.URL)
		return set
	})
}

// Issuers lists the identity providers whose tokens are accepted.
func (av *AuthVerbs) Issuers(ctx context.Context, opt peer.ReadOptions) ([]rota.Issuer, rota.ReadAt, error) {
	return readAccess(ctx, av, opt, (*fsm.Access).Issuers)
}

// DeleteIssuer stops accepting tokens of an identity provider.
func (av *AuthVerbs) DeleteIssuer(ctx context.Context, url string) error {
	return av.propose(ctx, &fsmpb.Op{Op: &fsmpb.Op_DeleteIssuer{DeleteIssuer: &fsmpb.DeleteIssuer{Url: url}}})
}

// Exchange creates an access token for an identity token that this node has verified.
func (av *AuthVerbs) Exchange(ctx context.Context, s access.SignIn) (rota.AccessToken, error) {
	op := &fsmpb.Exchange{Issuer: s.Issuer, Audience: s.Audience, Subject: s.Subject, Claim: s.Claim, Value: s.Value,
		Role: s.Role, JwtHash: s.JWT[:], UntilMs: int64(s.Until), Id: s.Token, Hash: s.Hash[:]}
	return av.makeToken(ctx, s.Token, &fsmpb.Op{Op: &fsmpb.Op_Exchange{Exchange: op}})
}

// OpenSession creates a browser session for the caller.
func (av *AuthVerbs) OpenSession(ctx context.Context, id string, hash [32]byte, link bool,
	until rota.Date) (rota.AccessToken, error) {
	return av.makeToken(ctx, id, &fsmpb.Op{Op: &fsmpb.Op_OpenSession{OpenSession: &fsmpb.OpenSession{Id: id,
		Hash: hash[:], Link: link, UntilMs: int64(until)}}})
}

// ClaimSession replaces the secret of a link's session with that of its user.
func (av *AuthVerbs) ClaimSession(ctx context.Context, id string, hash [32]byte) (rota.AccessToken, error) {
	return av.makeToken(ctx, id, &fsmpb.Op{Op: &fsmpb.Op_ClaimSession{ClaimSession: &fsmpb.ClaimSession{Id: id,
		Hash: hash[:]}}})
}

// EndSession ends a browser session; ending it again is not an error while it is known.
func (av *AuthVerbs) EndSession(ctx context.Context, id string) error {
	return av.propose(ctx, &fsmpb.Op{Op: &fsmpb.Op_EndSession{EndSession: &fsmpb.EndSession{Id: id}}})
}
