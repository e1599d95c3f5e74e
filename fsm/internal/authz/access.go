package authz

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

// Authority owns roles, tokens and blocks, and decides the rights of callers (docs/security.md).
type Authority struct {
	s      *state.State
	ports  Ports
	places Places
	Roles  state.Table[state.RoleName, state.RoleRow, *state.RoleRow]
	Tokens state.Table[state.TokenID, state.TokenRow, *state.TokenRow]
	Blocks state.Table[state.BlockKey, state.BlockRow, *state.BlockRow]
	// Issuers are identity providers by URL; spent are their tokens that were exchanged.
	Issuers state.Table[string, state.IssuerRow, *state.IssuerRow]
	Spent   state.Table[string, state.SpentRow, *state.SpentRow]
	// checked is the caller checked last; derived.
	checked access.Caller
	// known caches the rights resolved since the tables last changed; derived.
	known map[rota.Principal]known
	// Held counts the rows that principals own; derived.
	Held map[Holding]int64
	// Sessions are the ids of each principal's browser sessions, in the order in which they were opened, including
	// ended ones until they are forgotten; derived.
	Sessions map[rota.Principal][]string
	// Version counts the changes that this copy of the state applied; derived, never compared between nodes.
	Version uint64
}

// Ports is what the authority changes in other parts, and counts there.
type Ports struct {
	// Disown ends the sessions of the workers of principals, regrant calculates what they may work for.
	Disown, Regrant func(whose func(rota.Principal) bool)
	// DisableHooks disables the webhooks of principals.
	DisableHooks func(why string, of func(rota.Principal) bool)
	// EachHeld visits each row that counts for its principal.
	EachHeld func(yield func(by rota.Principal, what access.Owned))
}

// Places are where operations find what they name: the rows of other parts, which decide the tenant and the queue.
type Places struct {
	Tombs     *state.Tombs
	Workers   *state.Table[rota.WorkerID, state.WorkerRow, *state.WorkerRow]
	Leases    *state.Table[string, state.LeaseRow, *state.LeaseRow]
	Schedules *state.Table[rota.ScheduleName, state.ScheduleRow, *state.ScheduleRow]
	Batches   *state.Table[rota.BatchID, state.BatchRow, *state.BatchRow]
	Hooks     *state.Table[rota.WebhookName, state.HookRow, *state.HookRow]
	Budgets   *state.Table[rota.BudgetName, state.BudgetRow, *state.BudgetRow]
	Workflows *state.Table[rota.WorkflowID, state.WorkflowRow, *state.WorkflowRow]
	// KeyRule returns the rule of keys with exactly this name and value, nil if there is none.
	KeyRule func(queue rota.QueueName, name, value string) *state.KeyRuleRow
	// PlanStarter returns who started a plan.
	PlanStarter func(rota.PlanID) (by rota.Principal, known bool)
	// Node returns a node of a workflow, nil if it has none of the name. QueuesOf returns the queues of its nodes;
	// NewQueues those that a completion adds.
	Node      func(id rota.WorkflowID, name string) (v *state.VertexRow, known bool)
	QueuesOf  func(rota.WorkflowID) []rota.QueueName
	NewQueues func(*state.LeaseRow, *fsmpb.LeaseOp) []string
}

// Init connects the authority to the state and the parts that it uses.
func (ac *Authority) Init(s *state.State, ports Ports, where Places) {
	ac.s, ac.ports, ac.places = s, ports, where
	l := &s.Ledger
	ac.Roles.Init(state.TagRole, l)
	ac.Tokens.Init(state.TagToken, l)
	ac.Blocks.Init(state.TagBlock, l)
	ac.Issuers.Init(state.TagIssuer, l)
	ac.Spent.Init(state.TagSpent, l)
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

// here returns the Access of the present state, valid until it changes.
func (ac *Authority) here() *Access {
	return &Access{roles: &ac.Roles.Tree, tokens: &ac.Tokens.Tree, blocks: &ac.Blocks.Tree, issuers: &ac.Issuers.Tree,
		anonymous: ac.s.Header.Anonymous}
}

// changed drops the cached rights.
func (ac *Authority) changed() {
	ac.Version++
	clear(ac.known)
}

// RightsOf returns a principal's rights at the present date; unauthenticated if its credential is not valid.
func (ac *Authority) RightsOf(p rota.Principal) (*access.Rights, *rota.Error) {
	date := ac.s.Header.Date()
	if k, ok := ac.known[p]; ok && (k.until == 0 || date < k.until) {
		return k.rights, nil
	}
	rights, until, err := ac.here().Resolve(p, date)
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
	rights, _, err := a.Resolve(p, max(date, a.date))
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
var localRights = access.NewRights([]rota.Role{{Grants: []rota.Grant{Everywhere(rota.RightAuth),
	Everywhere(rota.RightStatus), Everywhere(rota.RightBackup)}}}, nil, nil)

// Everywhere returns a right over every queue and tenant.
func Everywhere(r rota.Right) rota.Grant {
	return rota.Grant{Right: r, Tenant: access.Everything, Queue: access.Everything}
}

// Resolve calculates a principal's rights; until is when they end by date, 0 for never.
func (a *Access) Resolve(p rota.Principal, date rota.Date) (r *access.Rights, until rota.Date, refusal *rota.Error) {
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
	rights, until, refusal := a.Resolve(parent, date)
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
func (ac *Authority) tell(kind rota.EventKind, c authChanged) {
	ac.changed()
	ac.s.Journal.Emit(rota.Event{Kind: kind, Payload: state.Payload(c)})
}

// unfounded refuses changes of rights before a cluster's first entry.
func (ac *Authority) unfounded() *rota.Error {
	if ac.s.Header.Cluster == "" {
		return rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	}
	return nil
}

// Derive rebuilds everything outside the rows.
func (ac *Authority) Derive() {
	ac.Sessions = nil
	ac.Tokens.Scan(func(id state.TokenID, r *state.TokenRow) bool {
		ac.s.Timers.Token.Refile(string(id), 0, int64(r.Expires))
		if r.Parent != "" {
			ac.keepSession(r.Parent, string(id))
		}
		return true
	})
	ac.Spent.Scan(func(hash string, r *state.SpentRow) bool {
		ac.s.Timers.Spent.Refile(hash, 0, int64(r.Until))
		return true
	})
	ac.places.Workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		ac.s.Timers.Disowned.Refile(string(id), 0, ac.DisownedAt(w))
		return true
	})
	ac.Held = nil
	ac.ports.EachHeld(func(by rota.Principal, what access.Owned) { ac.Hold(by, what, 1) })
	ac.changed()
}

// gone reports whether a principal's credential was revoked, or forgotten after its date.
func (ac *Authority) gone(p rota.Principal) bool {
	if id, ok := p.Token(); ok {
		t := ac.Tokens.Get(state.TokenID(id))
		return t == nil || !t.Revoked.IsZero()
	}
	role, name, ok := p.Cert()
	return ok && ac.Blocks.Get(state.BlockKeyOf(role, name)) != nil
}

// Work returns the tenants that a principal may work for in some queues; nil means all. It depends only on the rows:
// sweeps handle the end of a credential's date.
func (ac *Authority) Work(by rota.Principal, queues []rota.QueueName) *sched.Grants {
	if by == "" {
		return nil // the leader registered it
	}
	rights, _, refusal := ac.here().Resolve(by, 0)
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

// DisownedAt returns when a worker is due in the timers of workers whose credential is gone; 0 if it is not in them.
func (ac *Authority) DisownedAt(w *state.WorkerRow) int64 {
	if !ac.gone(w.By) {
		return 0
	}
	return 1
}

// FireToken forgets a token that has expired.
func (ac *Authority) FireToken(id string) {
	r := ac.Tokens.Get(state.TokenID(id))
	ac.s.Timers.Token.Refile(id, int64(r.Expires), 0)
	if r.Parent != "" {
		ac.forgetSession(r.Parent, id)
	} else {
		ac.Hold(r.By, access.OwnsToken, -1)
		ac.endSessions(rota.TokenPrincipal(id))
	}
	ac.Tokens.Drop(state.TokenID(id))
	ac.ports.Disown(only(rota.TokenPrincipal(id)))
	ac.changed()
}

// CheckAnonymous refuses a list of roles that anonymous callers cannot have.
func CheckAnonymous(roles []string) error {
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
		if t := j.ac.Tokens.Get(state.TokenID(op.RevokeToken.GetId())); t != nil {
			if t.Parent != "" {
				rights, _, refusal := here.Resolve(t.Parent, 0)
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

// NamesTenant reports whether a valid token is narrowed to exactly this tenant id.
func (ac *Authority) NamesTenant(id rota.TenantID) (named bool) {
	ac.Tokens.Scan(func(_ state.TokenID, t *state.TokenRow) bool {
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
func (ac *Authority) rolesOfIssuer(url string) []string {
	if r := ac.Issuers.Get(url); r != nil {
		return mappedRoles(r.Maps)
	}
	return nil
}

// cutURL returns the part of a URL that a refusal quotes.
func cutURL(url string) string { return url[:min(len(url), limits.MaxIssuerText)] }

// Freeze returns the rights of all callers, to be read while the state continues.
func (ac *Authority) Freeze() *Access {
	return &Access{roles: ac.Roles.Freeze(), tokens: ac.Tokens.Freeze(), blocks: ac.Blocks.Freeze(),
		issuers: ac.Issuers.Freeze(), anonymous: ac.s.Header.Anonymous, date: ac.s.Header.Date()}
}

// Reader returns a principal's rights to read at the present date.
func (ac *Authority) Reader(p rota.Principal) (*access.Reader, error) {
	rights, _, err := ac.here().Resolve(p, ac.s.Header.Date())
	if err != nil {
		return nil, err
	}
	return access.NewReader(rights), nil
}

// Load loads one record of access; false if the row exists already.
func (ac *Authority) Load(kind byte, d *state.Decoder) bool {
	switch kind {
	case state.TagRole:
		r := state.DecodeRole(d)
		return ac.Roles.Load(state.RoleName(r.Name), r)
	case state.TagToken:
		r := state.DecodeToken(d)
		return ac.Tokens.Load(state.TokenID(r.ID), r)
	case state.TagBlock:
		r := state.DecodeBlock(d)
		return ac.Blocks.Load(r.Key, r)
	case state.TagIssuer:
		r := state.DecodeIssuer(d)
		return ac.Issuers.Load(r.URL, r)
	case state.TagSpent:
		r := state.DecodeSpent(d)
		return ac.Spent.Load(string(r.Hash[:]), r)
	default:
		panic("fsm: Add names the kinds of access")
	}
}
