package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

func grantToWire(g *rota.Grant) *rotav1.Grant {
	return &rotav1.Grant{Right: g.Right.String(), Tenant: g.Tenant, Queue: g.Queue}
}

func grantFromWire(w *rotav1.Grant) (rota.Grant, error) {
	g := rota.Grant{Tenant: w.GetTenant(), Queue: w.GetQueue()}
	return g, g.Right.UnmarshalText([]byte(w.GetRight()))
}

// GrantsToWire converts grants.
func GrantsToWire(grants []rota.Grant) []*rotav1.Grant { return each(grants, grantToWire) }

// GrantsFromWire is the inverse of GrantsToWire.
func GrantsFromWire(w []*rotav1.Grant) ([]rota.Grant, error) { return tryEach(w, grantFromWire) }

// IdentityToWire converts a caller's identity and rights.
func IdentityToWire(i *rota.Identity) *rotav1.Identity {
	return &rotav1.Identity{Principal: string(i.Principal), Grants: GrantsToWire(i.Grants), Tenants: i.Tenants,
		Queues: i.Queues, By: string(i.By)}
}

// IdentityFromWire is the inverse of IdentityToWire.
func IdentityFromWire(w *rotav1.Identity) (rota.Identity, error) {
	grants, err := GrantsFromWire(w.GetGrants())
	return rota.Identity{Principal: rota.Principal(w.GetPrincipal()), Grants: grants, Tenants: w.GetTenants(),
		Queues: w.GetQueues(), By: rota.Principal(w.GetBy())}, err
}

// NewTokenToWire converts a token to be created, with the hash of its secret.
func NewTokenToWire(t *rota.AccessToken, hash [32]byte) *rotav1.CreateTokenRequest {
	return &rotav1.CreateTokenRequest{Id: t.ID, Hash: hash[:], Roles: t.Roles, Tenants: t.Tenants, Queues: t.Queues,
		WorkerPrefix: t.WorkerPrefix, ExpiresMs: int64(t.Expires)}
}

// InitToWire converts the first token of a cluster, or a further one, with the hash of its secret.
func InitToWire(t *rota.AccessToken, hash [32]byte, reset bool) *rotav1.InitRequest {
	return &rotav1.InitRequest{Id: t.ID, Hash: hash[:], ExpiresMs: int64(t.Expires), Reset_: reset}
}

// InitFromWire is the inverse of InitToWire, except for the roles.
func InitFromWire(w *rotav1.InitRequest) (t rota.AccessToken, hash [32]byte, reset bool, err error) {
	t = rota.AccessToken{ID: w.GetId(), Expires: rota.Date(w.GetExpiresMs())}
	hash, err = hashFromWire(w.GetHash())
	return t, hash, w.GetReset_(), err
}

func hashFromWire(b []byte) (hash [32]byte, err error) {
	if len(b) != len(hash) {
		return hash, rota.Refusef(rota.KindInvalid, "hash", "hash: got %d bytes, want %d", len(b), len(hash))
	}
	return [32]byte(b), nil
}

// NewTokenFromWire is the inverse of NewTokenToWire.
func NewTokenFromWire(w *rotav1.CreateTokenRequest) (t rota.AccessToken, hash [32]byte, err error) {
	t = rota.AccessToken{ID: w.GetId(), Roles: w.GetRoles(), Tenants: w.GetTenants(), Queues: w.GetQueues(),
		WorkerPrefix: w.GetWorkerPrefix(), Expires: rota.Date(w.GetExpiresMs())}
	hash, err = hashFromWire(w.GetHash())
	return t, hash, err
}

// AccessTokenToWire converts a token as the cluster knows it.
func AccessTokenToWire(t *rota.AccessToken) *rotav1.AccessToken {
	return &rotav1.AccessToken{Id: t.ID, Roles: t.Roles, Tenants: t.Tenants, Queues: t.Queues,
		WorkerPrefix: t.WorkerPrefix,
		ExpiresMs:    int64(t.Expires), By: string(t.By), CreatedMs: int64(t.Created.Date),
		CreatedClockMs: int64(t.Created.Clock),
		RevokedMs:      int64(t.Revoked.Date), RevokedClockMs: int64(t.Revoked.Clock), Parent: string(t.Parent)}
}

// AccessTokenFromWire is the inverse of AccessTokenToWire.
func AccessTokenFromWire(w *rotav1.AccessToken) (rota.AccessToken, error) {
	return rota.AccessToken{ID: w.GetId(), Roles: w.GetRoles(), Tenants: w.GetTenants(), Queues: w.GetQueues(),
		WorkerPrefix: w.GetWorkerPrefix(),
		Expires:      rota.Date(w.GetExpiresMs()), By: rota.Principal(w.GetBy()),
		Created: moment(w.GetCreatedMs(), w.GetCreatedClockMs()),
		Revoked: moment(w.GetRevokedMs(), w.GetRevokedClockMs()), Parent: rota.Principal(w.GetParent())}, nil
}

// AccessTokensFromWire converts a list of tokens.
func AccessTokensFromWire(w []*rotav1.AccessToken) ([]rota.AccessToken, error) {
	return tryEach(w, AccessTokenFromWire)
}

func roleLimitsToWire(l *rota.RoleLimits) *rotav1.RoleLimits {
	return &rotav1.RoleLimits{MaxQueues: l.MaxQueues, MaxTenants: l.MaxTenants, MaxWorkers: l.MaxWorkers,
		MaxWorkflows: l.MaxWorkflows,
		MaxTokens:    l.MaxTokens, MaxSchedules: l.MaxSchedules, MaxBatches: l.MaxBatches, MaxWebhooks: l.MaxWebhooks}
}

func roleLimitsFromWire(w *rotav1.RoleLimits) rota.RoleLimits {
	return rota.RoleLimits{MaxQueues: w.GetMaxQueues(), MaxTenants: w.GetMaxTenants(), MaxWorkers: w.GetMaxWorkers(),
		MaxWorkflows: w.GetMaxWorkflows(), MaxTokens: w.GetMaxTokens(), MaxSchedules: w.GetMaxSchedules(),
		MaxBatches: w.GetMaxBatches(), MaxWebhooks: w.GetMaxWebhooks()}
}

// NewRoleToWire converts a role to be set.
func NewRoleToWire(r *rota.Role) *rotav1.SetRoleRequest {
	return &rotav1.SetRoleRequest{Name: r.Name, Grants: GrantsToWire(r.Grants), Limits: roleLimitsToWire(&r.RoleLimits)}
}

// NewRoleFromWire is the inverse of NewRoleToWire.
func NewRoleFromWire(w *rotav1.SetRoleRequest) (rota.Role, error) {
	grants, err := GrantsFromWire(w.GetGrants())
	return rota.Role{Name: w.GetName(), Grants: grants, RoleLimits: roleLimitsFromWire(w.GetLimits())}, err
}

// RoleToWire converts a role.
func RoleToWire(r *rota.Role) *rotav1.Role {
	return &rotav1.Role{Name: r.Name, Grants: GrantsToWire(r.Grants), BuiltIn: r.BuiltIn, By: string(r.By),
		AtMs: int64(r.At.Date), AtClockMs: int64(r.At.Clock), Limits: roleLimitsToWire(&r.RoleLimits), Etag: r.ETag}
}

// RoleFromWire is the inverse of RoleToWire.
func RoleFromWire(w *rotav1.Role) (rota.Role, error) {
	grants, err := GrantsFromWire(w.GetGrants())
	return rota.Role{Name: w.GetName(), Grants: grants, BuiltIn: w.GetBuiltIn(), By: rota.Principal(w.GetBy()),
		At: moment(w.GetAtMs(), w.GetAtClockMs()), RoleLimits: roleLimitsFromWire(w.GetLimits()),
		ETag: w.GetEtag()}, err
}

// RolesFromWire converts a list of roles.
func RolesFromWire(w []*rotav1.Role) ([]rota.Role, error) { return tryEach(w, RoleFromWire) }

// BlockToWire converts a block of certificates.
func BlockToWire(b *rota.Block) *rotav1.Block {
	return &rotav1.Block{Role: b.Role, Name: b.Name, By: string(b.By), AtMs: int64(b.At.Date),
		AtClockMs: int64(b.At.Clock)}
}

// BlockFromWire is the inverse of BlockToWire.
func BlockFromWire(w *rotav1.Block) (rota.Block, error) {
	return rota.Block{Role: w.GetRole(), Name: w.GetName(), By: rota.Principal(w.GetBy()),
		At: moment(w.GetAtMs(), w.GetAtClockMs())}, nil
}

// BlocksFromWire converts a list of blocks.
func BlocksFromWire(w []*rotav1.Block) ([]rota.Block, error) {
	return tryEach(w, BlockFromWire)
}

// MapsToWire converts an issuer's mappings to roles.
func MapsToWire(maps []rota.ClaimRole) []*rotav1.ClaimRole {
	return each(maps, func(m *rota.ClaimRole) *rotav1.ClaimRole {
		return &rotav1.ClaimRole{Claim: m.Claim, Value: m.Value, Role: m.Role}
	})
}

// MapsFromWire is the inverse of MapsToWire.
func MapsFromWire(w []*rotav1.ClaimRole) (maps []rota.ClaimRole) {
	for _, m := range w {
		maps = append(maps, rota.ClaimRole{Claim: m.GetClaim(), Value: m.GetValue(), Role: m.GetRole()})
	}
	return maps
}

// IssuerToWire converts an identity provider.
func IssuerToWire(i *rota.Issuer) *rotav1.Issuer {
	return &rotav1.Issuer{Url: i.URL, Audience: i.Audience, Ca: i.CA, Maps: MapsToWire(i.Maps), By: string(i.By),
		AtMs: int64(i.At.Date), AtClockMs: int64(i.At.Clock), Etag: i.ETag}
}

// IssuerFromWire is the inverse of IssuerToWire.
func IssuerFromWire(w *rotav1.Issuer) (rota.Issuer, error) {
	return rota.Issuer{URL: w.GetUrl(), Audience: w.GetAudience(), CA: w.GetCa(), Maps: MapsFromWire(w.GetMaps()),
		By: rota.Principal(w.GetBy()), At: moment(w.GetAtMs(), w.GetAtClockMs()), ETag: w.GetEtag()}, nil
}

// IssuersFromWire converts a list of identity providers.
func IssuersFromWire(w []*rotav1.Issuer) ([]rota.Issuer, error) { return tryEach(w, IssuerFromWire) }
