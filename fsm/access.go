package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// authority owns roles, tokens and blocks, and decides the rights of callers (docs/security.md).
type authority struct {
	s         *state.State
	batches   *batches
	budgets   *budgets
	ended     *ended
	fleet     *fleet
	flows     *flows
	hooks     *hooks
	keyring   *keyring
	leasing   *leasing
	life      *lifecycle
	plans     *plans
	schedules *schedules
	roles     state.Table[state.RoleName, state.RoleRow, *state.RoleRow]
	tokens    state.Table[state.TokenID, state.TokenRow, *state.TokenRow]
	blocks    state.Table[state.BlockKey, state.BlockRow, *state.BlockRow]
	// issuers are identity providers by URL; spent are their tokens that were exchanged.
	issuers state.Table[string, state.IssuerRow, *state.IssuerRow]
	spent   state.Table[string, state.SpentRow, *state.SpentRow]
	// checked is the caller checked last; derived.
	checked access.Caller
	// known caches the rights resolved since the tables last changed; derived.
	known map[rota.Principal]known
	// held counts the rows that principals own; derived.
	held map[holding]int64
	// sessions are the ids of each principal's browser sessions, in the order in which they were opened, including
	// ended ones until they are forgotten; derived.
	sessions map[rota.Principal][]string
	// version counts the changes that this copy of the state applied; derived, never compared between nodes.
	version uint64
}

// known holds the rights of a principal, valid until a date unless that is 0.
type known struct {
	rights *access.Rights
	until  rota.Date
}

// maxKnown is the maximum number of cached rights.
const maxKnown = 4096

// Access holds the rights of all callers at one index. It never changes.
type Access struct {
	roles   *tree.Tree[state.RoleName, *state.RoleRow]
	tokens  *tree.Tree[state.TokenID, *state.TokenRow]
	blocks  *tree.Tree[state.BlockKey, *state.BlockRow]
	issuers *tree.Tree[string, *state.IssuerRow]
	// anonymous are the roles of callers without a credential.
	anonymous []string
	date      rota.Date
}

// Access returns the rights of all callers, to be read while the machine continues.
func (vw *View) Access() *Access {
	ac := &vw.m.access
	return &Access{roles: ac.roles.Freeze(), tokens: ac.tokens.Freeze(), blocks: ac.blocks.Freeze(),
		issuers: ac.issuers.Freeze(), anonymous: vw.m.Header.Anonymous, date: vw.m.Header.Date()}
}

// Reader returns a principal's rights to read at the present date.
func (vw *View) Reader(p rota.Principal) (*access.Reader, error) {
	rights, _, err := vw.m.access.here().resolve(p, vw.m.Header.Date())
	if err != nil {
		return nil, err
	}
	return access.NewReader(rights), nil
}

// PlaceOfJob returns the tenant and the queue of a job that the state contains.
func (vw *View) PlaceOfJob(id rota.JobID) (rota.TenantID, rota.QueueName, bool) {
	tenant, queue, ok := vw.m.access.placeOfJob(string(id))
	return rota.TenantID(tenant), rota.QueueName(queue), ok
}

// LeasedTo reports whether a worker that a principal registered has a job leased.
func (vw *View) LeasedTo(id rota.JobID, by rota.Principal) bool {
	j := vw.m.JobTable.Get(id)
	if j == nil {
		return false
	}
	l := vw.m.leasing.leases.Get(string(j.Lease[:]))
	return l != nil && vw.m.fleet.workers.Get(l.Worker).By == by
}

// AccessVersion returns a number that grows whenever rights change.
func (vw *View) AccessVersion() uint64 { return vw.m.access.version }

// here returns the Access of the present state, valid until it changes.
func (ac *authority) here() *Access {
	return &Access{roles: &ac.roles.Tree, tokens: &ac.tokens.Tree, blocks: &ac.blocks.Tree, issuers: &ac.issuers.Tree,
		anonymous: ac.s.Header.Anonymous}
}

// changed drops the cached rights.
func (ac *authority) changed() {
	ac.version++
	clear(ac.known)
}

// rightsOf returns a principal's rights at the present date; unauthenticated if its credential is not valid.
func (ac *authority) rightsOf(p rota.Principal) (*access.Rights, *rota.Error) {
	date := ac.s.Header.Date()
	if k, ok := ac.known[p]; ok && (k.until == 0 || date < k.until) {
		return k.rights, nil
	}
	rights, until, err := ac.here().resolve(p, date)
	if err != nil {
		return nil, err
	}
	if ac.known == nil || len(ac.known) >= maxKnown {
		ac.known = make(map[rota.Principal]known)
	}
	ac.known[p] = known{rights, until}
	return rights, nil
}

// Rights returns a principal's rights on a date; unauthenticated if its credential is not valid.
func (a *Access) Rights(p rota.Principal, date rota.Date) (*access.Rights, error) {
	rights, _, err := a.resolve(p, max(date, a.date))
	if err != nil {
		return nil, err
	}
	return rights, nil
}

// Prove returns the principal of a token on a date. The error for an invalid token reveals nothing useful to a thief.
func (a *Access) Prove(c access.Credential, date rota.Date) (rota.Principal, error) {
	var hash [32]byte
	r, ok := a.tokens.Get(state.TokenID(c.ID))
	if ok {
		hash = r.Hash
	}
	if !c.Proves(hash) || !ok || !r.Live(max(date, a.date)) {
		return "", noCredential()
	}
	if r.Parent != "" {
		return rota.SessionPrincipal(c.ID, r.Parent), nil
	}
	return rota.TokenPrincipal(c.ID), nil
}

func noCredential() *rota.Error {
	return rota.Refusef(rota.KindUnauthenticated, "credential",
		"the credential does not count: it is unknown, revoked or expired; "+
			"ask for a new one")
}

// localRights are the rights of the account that a node runs as.
var localRights = access.NewRights([]rota.Role{{Grants: []rota.Grant{everywhere(rota.RightAuth),
	everywhere(rota.RightStatus), everywhere(rota.RightBackup)}}}, nil, nil)

func everywhere(r rota.Right) rota.Grant {
	return rota.Grant{Right: r, Tenant: access.Everything, Queue: access.Everything}
}

// resolve calculates a principal's rights; until is when they end by date, 0 for never.
func (a *Access) resolve(p rota.Principal, date rota.Date) (r *access.Rights, until rota.Date, refusal *rota.Error) {
	if id, ok := p.Token(); ok {
		t, ok := a.tokens.Get(state.TokenID(id))
		if !ok || !t.Live(date) || t.Parent != "" {
			return nil, 0, noCredential()
		}
		return a.ofToken(&t.AccessToken), t.Expires, nil
	}
	if id, parent, ok := p.Session(); ok {
		return a.ofSession(id, parent, date)
	}
	if role, name, ok := p.Cert(); ok {
		if _, blocked := a.blocks.Get(state.BlockKeyOf(role, name)); blocked {
			return nil, 0, noCredential()
		}
		return a.granted([]string{role}, nil, nil), 0, nil
	}
	switch p {
	case rota.Local:
		return &localRights, 0, nil
	case rota.Anonymous:
		return a.granted(a.anonymous, nil, nil), 0, nil
	default:
		return nil, 0, noCredential()
	}
}

// ofSession calculates the rights of a browser session: those of its parent at that moment, and none before its link
// was claimed.
func (a *Access) ofSession(id string, parent rota.Principal, date rota.Date) (*access.Rights, rota.Date, *rota.Error) {
	t, ok := a.tokens.Get(state.TokenID(id))
	if !ok || !t.Live(date) || t.Parent != parent || !access.MayHaveSessions(parent) {
		return nil, 0, noCredential()
	}
	rights, until, refusal := a.resolve(parent, date)
	if refusal != nil {
		return nil, 0, refusal
	}
	if t.Link {
		rights = a.granted(nil, nil, nil)
	}
	if until == 0 || t.Expires < until {
		until = t.Expires
	}
	return rights, until, nil
}

// granted returns the rights that roles grant within a narrowing; a missing role grants nothing.
func (a *Access) granted(roles, tenants, queues []string) *access.Rights {
	set := make([]rota.Role, 0, len(roles))
	for _, name := range roles {
		if role, ok := a.Role(name); ok {
			set = append(set, role)
		}
	}
	r := access.NewRights(set, tenants, queues)
	return &r
}

// ofToken returns what a token's roles grant within its narrowing.
func (a *Access) ofToken(t *rota.AccessToken) *access.Rights {
	r := a.granted(t.Roles, t.Tenants, t.Queues).Registering(t.WorkerPrefix)
	return &r
}

// Role returns a role, built in or set; ok is false if it does not exist.
func (a *Access) Role(name string) (role rota.Role, ok bool) {
	if role, ok = access.BuiltInRole(name); ok {
		return role, true
	}
	r, ok := a.roles.Get(state.RoleName(name))
	if !ok {
		return rota.Role{}, false
	}
	return r.Role, true
}

// Roles returns all roles by name, built-in ones first.
func (a *Access) Roles() []rota.Role {
	roles := access.BuiltInRoles()
	a.roles.Scan(func(_ state.RoleName, r *state.RoleRow) bool {
		roles = append(roles, r.Role)
		return true
	})
	return roles
}

// Token returns a token by its id.
func (a *Access) Token(id string) (t rota.AccessToken, ok bool) {
	r, ok := a.tokens.Get(state.TokenID(id))
	if !ok {
		return rota.AccessToken{}, false
	}
	return r.AccessToken, true
}

// Tokens calls yield for each token in order of ids, starting with from, until it returns false.
func (a *Access) Tokens(from string, yield func(rota.AccessToken) bool) {
	a.tokens.Ascend(state.TokenID(from), func(_ state.TokenID, r *state.TokenRow) bool { return yield(r.AccessToken) })
}

// Blocks returns all blocks, by role and name.
func (a *Access) Blocks() (blocks []rota.Block) {
	a.blocks.Scan(func(_ state.BlockKey, r *state.BlockRow) bool {
		blocks = append(blocks, r.Block)
		return true
	})
	return blocks
}

// Issuers returns the identity providers, by URL.
func (a *Access) Issuers() (issuers []rota.Issuer) {
	a.issuers.Scan(func(_ string, r *state.IssuerRow) bool {
		issuers = append(issuers, r.Issuer)
		return true
	})
	return issuers
}

// Issuer returns an identity provider by its URL; ok is false if none is set.
func (a *Access) Issuer(url string) (i rota.Issuer, ok bool) {
	r, ok := a.issuers.Get(url)
	if !ok {
		return rota.Issuer{}, false
	}
	return r.Issuer, true
}

// Anonymous returns the roles of callers without a credential.
func (a *Access) Anonymous() []string { return a.anonymous }

// authChanged is the payload of the event of a change of rights: what changed, and to what.
type authChanged struct {
	What  string       `json:"what"`
	Name  string       `json:"name,omitempty"`
	Gone  bool         `json:"gone,omitempty"`
	Roles []string     `json:"roles,omitempty"`
	Gives []rota.Grant `json:"grants,omitempty"`
	rota.RoleLimits
	Until rota.Date `json:"expires_ms,omitempty"`
	// By is the subject that signed in through an issuer; Maps is the issuer's mapping to roles.
	By   rota.Principal   `json:"by,omitempty"`
	Maps []rota.ClaimRole `json:"maps,omitempty"`
}

// tell emits an event of a change of rights.
func (ac *authority) tell(kind rota.EventKind, c authChanged) {
	ac.changed()
	ac.s.Journal.Emit(rota.Event{Kind: kind, Payload: state.Payload(c)})
}

// unfounded refuses changes of rights before a cluster's first entry.
func (ac *authority) unfounded() *rota.Error {
	if ac.s.Header.Cluster == "" {
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	}
	return nil
}

// derive rebuilds everything outside the rows.
func (ac *authority) derive() {
	ac.sessions = nil
	ac.tokens.Scan(func(id state.TokenID, r *state.TokenRow) bool {
		ac.s.Timers.Token.Refile(string(id), 0, int64(r.Expires))
		if r.Parent != "" {
			ac.keepSession(r.Parent, string(id))
		}
		return true
	})
	ac.spent.Scan(func(hash string, r *state.SpentRow) bool {
		ac.s.Timers.Spent.Refile(hash, 0, int64(r.Until))
		return true
	})
	ac.fleet.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		ac.s.Timers.Disowned.Refile(string(id), 0, ac.disownedAt(w))
		return true
	})
	ac.held = nil
	ac.life.eachHeld(func(by rota.Principal, what access.Owned) { ac.hold(by, what, 1) })
	ac.changed()
}

// gone reports whether a principal's credential was revoked, or forgotten after its date.
func (ac *authority) gone(p rota.Principal) bool {
	if id, ok := p.Token(); ok {
		t := ac.tokens.Get(state.TokenID(id))
		return t == nil || !t.Revoked.IsZero()
	}
	role, name, ok := p.Cert()
	return ok && ac.blocks.Get(state.BlockKeyOf(role, name)) != nil
}

// work returns the tenants that a principal may work for in some queues; nil means all. It depends only on the rows:
// sweeps handle the end of a credential's date.
func (ac *authority) work(by rota.Principal, queues []rota.QueueName) *sched.Grants {
	if by == "" {
		return nil // the leader registered it
	}
	rights, _, refusal := ac.here().resolve(by, 0)
	if refusal != nil {
		return &sched.Grants{}
	}
	var g sched.Grants
	narrow := false
	for _, q := range queues {
		tenants := rights.Tenants(rota.RightWork, q)
		g.Queues = append(g.Queues, sched.QueueTenants{Queue: q, Tenants: tenants})
		narrow = narrow || !slices.Contains(tenants, access.Everything)
	}
	if !narrow {
		return nil
	}
	return &g
}

// disownedAt returns when a worker is due in the timers of workers whose credential is gone; 0 if it is not in them.
func (ac *authority) disownedAt(w *state.WorkerRow) int64 {
	if !ac.gone(w.By) {
		return 0
	}
	return 1
}

// fireToken forgets a token that has expired.
func (ac *authority) fireToken(id string) {
	r := ac.tokens.Get(state.TokenID(id))
	ac.s.Timers.Token.Refile(id, int64(r.Expires), 0)
	if r.Parent != "" {
		ac.forgetSession(r.Parent, id)
	} else {
		ac.hold(r.By, access.OwnsToken, -1)
		ac.endSessions(rota.TokenPrincipal(id))
	}
	ac.tokens.Drop(state.TokenID(id))
	ac.fleet.disown(only(rota.TokenPrincipal(id)))
	ac.changed()
}

// checkAnonymous refuses a list of roles that anonymous callers cannot have.
func checkAnonymous(roles []string) error {
	if len(roles) > limits.MaxTokenRoles {
		return rota.Refusef(rota.KindInvalid, "roles",
			"roles of callers without a credential are %d: at most %d are taken", len(roles),
			limits.MaxTokenRoles)
	}
	for _, name := range roles {
		if err := rota.CheckID("role", name); err != nil {
			return err
		}
	}
	return nil
}

func maxAt(list []string, most int) []string { return slices.Clone(list[:min(len(list), most+1)]) }

// roleWords decodes a role.
func roleWords(op *fsmpb.SetRole) rota.Role {
	return rota.Role{Name: op.GetName(), Grants: grantWords(op.GetGrants()),
		RoleLimits: rota.RoleLimits{MaxQueues: op.GetMaxQueues(),
			MaxTenants: op.GetMaxTenants(), MaxWorkers: op.GetMaxWorkers(), MaxWorkflows: op.GetMaxWorkflows(),
			MaxTokens:    op.GetMaxTokens(),
			MaxSchedules: op.GetMaxSchedules(), MaxBatches: op.GetMaxBatches(), MaxWebhooks: op.GetMaxWebhooks()}}
}

// grantWords decodes at most one more than any check accepts.
func grantWords(ops []*fsmpb.Grant) []rota.Grant {
	grants := make([]rota.Grant, 0, min(len(ops), limits.MaxGrants+1))
	for _, g := range ops[:min(len(ops), limits.MaxGrants+1)] {
		grants = append(grants, rota.Grant{Right: rota.Right(min(g.GetRight(), 255)), Tenant: g.GetTenant(),
			Queue: g.GetQueue()})
	}
	return grants
}

// tokenWords decodes a token and its hash; it cuts lists to one more than any check accepts.
func tokenWords(op *fsmpb.CreateToken) (t rota.AccessToken, hash [32]byte, err error) {
	t = rota.AccessToken{ID: op.GetId(), Roles: maxAt(op.GetRoles(), limits.MaxTokenRoles),
		Tenants: maxAt(op.GetTenants(), limits.MaxTokenPatterns),
		Queues:  maxAt(op.GetQueues(), limits.MaxTokenPatterns), WorkerPrefix: op.GetWorkerPrefix(),
		Expires: rota.Date(op.GetExpiresMs())}
	if len(op.GetHash()) != len(hash) {
		return t, hash, rota.Refusef(rota.KindInvalid, "hash", "the hash of the token has %d bytes: %d are wanted",
			len(op.GetHash()), len(hash))
	}
	copy(hash[:], op.GetHash())
	err = access.CheckToken(&t)
	return t, hash, err
}

// auth judges a change of rights: only the account that the node runs as may give, take or change rights beyond its
// own. Only that account may create the first token.
func (j *judgement) auth(op *fsmpb.Op) *rota.Error {
	if j.actor == rota.Local {
		return nil
	}
	here := j.ac.here()
	switch op := op.GetOp().(type) {
	case *fsmpb.Op_SetRole:
		if refusal := j.within("role", op.SetRole.GetName(), roleRights(op.SetRole)); refusal != nil {
			return refusal
		}
		return j.within("role", op.SetRole.GetName(), here.granted([]string{op.SetRole.GetName()}, nil, nil))
	case *fsmpb.Op_DeleteRole:
		return j.within("role", op.DeleteRole.GetName(), here.granted([]string{op.DeleteRole.GetName()}, nil, nil))
	case *fsmpb.Op_CreateToken:
		t, _, err := tokenWords(op.CreateToken)
		if err != nil {
			return rota.ErrorOf(err)
		}
		return j.within("token", t.ID, here.ofToken(&t))
	case *fsmpb.Op_RevokeToken:
		if t := j.ac.tokens.Get(state.TokenID(op.RevokeToken.GetId())); t != nil {
			if t.Parent != "" {
				rights, _, refusal := here.resolve(t.Parent, 0)
				if refusal != nil {
					return nil // it has ended with its parent
				}
				return j.within("session", t.ID, rights)
			}
			return j.within("token", t.ID, here.ofToken(&t.AccessToken))
		}
		return nil
	case *fsmpb.Op_SetBlock:
		return j.within("block", op.SetBlock.GetRole()+"/"+op.SetBlock.GetName(),
			here.granted([]string{op.SetBlock.GetRole()}, nil, nil))
	case *fsmpb.Op_SetIssuer:
		return j.within("issuer", cutURL(op.SetIssuer.GetUrl()),
			here.granted(slices.Concat(mappedRoles(mapWords(op.SetIssuer.GetMaps())),
				j.ac.rolesOfIssuer(op.SetIssuer.GetUrl())), nil, nil))
	case *fsmpb.Op_DeleteIssuer:
		return j.within("issuer", cutURL(op.DeleteIssuer.GetUrl()),
			here.granted(j.ac.rolesOfIssuer(op.DeleteIssuer.GetUrl()), nil, nil))
	case *fsmpb.Op_SetAnonymous:
		roles := slices.Concat(maxAt(op.SetAnonymous.GetRoles(), limits.MaxTokenRoles), here.anonymous)
		return j.within("role", "of anonymous", here.granted(roles, nil, nil))
	default:
		return rota.Refusef(rota.KindDenied, "auth",
			"only the account that a node runs as makes the first token, or another one that stands for all: "+
				"run `rota auth` with --data on the node")
	}
}

func roleRights(op *fsmpb.SetRole) *access.Rights {
	r := access.NewRights([]rota.Role{roleWords(op)}, nil, nil)
	return &r
}

// within refuses rights beyond the actor's own.
func (j *judgement) within(what, name string, r *access.Rights) *rota.Error {
	if r.Within(j.rights) {
		return nil
	}
	return rota.Refusef(rota.KindDenied, what,
		"%s %s has rights or limits beyond those of %s: nobody gives, takes or changes more than their own", what, name,
		j.actor)
}

// namesTenant reports whether a valid token is narrowed to exactly this tenant id.
func (ac *authority) namesTenant(id rota.TenantID) (named bool) {
	ac.tokens.Scan(func(_ state.TokenID, t *state.TokenRow) bool {
		named = t.Revoked == (rota.Moment{}) && slices.Contains(t.Tenants, string(id))
		return !named
	})
	return named
}

// mapWords decodes at most one more than any check accepts.
func mapWords(ops []*fsmpb.ClaimRole) []rota.ClaimRole {
	maps := make([]rota.ClaimRole, 0, min(len(ops), limits.MaxIssuerMaps+1))
	for _, m := range ops[:min(len(ops), limits.MaxIssuerMaps+1)] {
		maps = append(maps, rota.ClaimRole{Claim: m.GetClaim(), Value: m.GetValue(), Role: m.GetRole()})
	}
	return maps
}

func mappedRoles(maps []rota.ClaimRole) (roles []string) {
	for _, m := range maps {
		roles = append(roles, m.Role)
	}
	return roles
}

// rolesOfIssuer returns the roles that an issuer's mapping contains, none if the issuer is not set.
func (ac *authority) rolesOfIssuer(url string) []string {
	if r := ac.issuers.Get(url); r != nil {
		return mappedRoles(r.Maps)
	}
	return nil
}

// cutURL returns the part of a URL that a refusal quotes.
func cutURL(url string) string { return url[:min(len(url), limits.MaxIssuerText)] }
