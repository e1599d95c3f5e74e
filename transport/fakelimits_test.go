package transport

import (
	"bytes"
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// The fake core's answers about sessions, tenants and modes echo the request.

func (c *fakeCore) ChangeJob(_ context.Context, change rota.JobChange) (rota.JobOutcome, error) {
	return rota.JobOutcome{ID: change.ID, State: rota.JobQueued, Index: 9}, nil
}

func (c *fakeCore) Interrupt(_ context.Context, ids []rota.JobID, _ bool) ([]rota.JobOutcome, error) {
	return c.all(ids, rota.JobRunning)
}

func (c *fakeCore) RunNow(_ context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	return c.all(ids, rota.JobQueued)
}

func (c *fakeCore) all(ids []rota.JobID, state rota.JobState) ([]rota.JobOutcome, error) {
	done := make([]rota.JobOutcome, len(ids))
	for i, id := range ids {
		done[i] = rota.JobOutcome{ID: id, State: state, Index: 7}
	}
	return done, c.err
}

func (c *fakeCore) DeleteJobs(_ context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	deleted := make([]rota.JobOutcome, len(ids))
	for i, id := range ids {
		deleted[i] = rota.JobOutcome{ID: id, State: rota.JobCompleted, Index: 8}
	}
	return deleted, c.err
}

func (c *fakeCore) ReportProof(_ context.Context, r rota.ProofReport) (rota.JobOutcome, error) {
	return rota.JobOutcome{ID: r.Job, State: rota.JobQueued, Index: 6}, c.err
}

func fakeStatus(id rota.WorkerID, status rota.WorkerStatus) rota.Worker {
	return rota.Worker{WorkerSpec: rota.WorkerSpec{ID: id}, Status: status}
}

func (c *fakeCore) SuspendWorker(_ context.Context, id rota.WorkerID) (rota.Worker, error) {
	return fakeStatus(id, rota.WorkerSuspended), c.err
}

func (c *fakeCore) ResumeWorker(_ context.Context, id rota.WorkerID) (rota.Worker, error) {
	return fakeStatus(id, rota.WorkerActive), c.err
}

func (c *fakeCore) RetireWorker(_ context.Context, id rota.WorkerID) (rota.Worker, error) {
	return fakeStatus(id, rota.WorkerRetired), c.err
}

func (c *fakeCore) WorkerGone(_ context.Context, _ rota.WorkerID, session rota.Session, secret []byte) error {
	if session != 7 || !bytes.Equal(secret, secret16) {
		return rota.Refusef(rota.KindDenied, "secret", "the secret is not that of the worker")
	}
	return c.err
}

func (c *fakeCore) Tenants(context.Context, peer.ReadOptions) ([]rota.Tenant, rota.ReadAt, error) {
	return c.tenants, rota.ReadAt{Index: 4}, c.err
}

func (c *fakeCore) Tenant(_ context.Context, id rota.TenantID, opt peer.ReadOptions) (rota.Tenant, rota.ReadAt, error) {
	return rota.Tenant{ID: id, TenantLimits: rota.DefaultTenantLimits()}, fakeAt(opt), c.err
}

func (c *fakeCore) SetTenant(_ context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error) {
	t := rota.Tenant{ID: id, TenantLimits: rota.DefaultTenantLimits(), Known: true}
	for _, s := range set {
		if err := t.Set(s); err != nil {
			return t, err
		}
	}
	return t, c.err
}

func (c *fakeCore) PreviewTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error) {
	t, err := c.SetTenant(ctx, id, set)
	t.Changes = rota.DefaultTenantLimits().Differences(t.TenantLimits)
	return t, err
}

func (c *fakeCore) PreviewCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error) {
	settings, err := c.SetCluster(ctx, set)
	usual := rota.DefaultClusterSettings()
	settings.Changes = usual.Differences(&settings)
	return settings, err
}

func (c *fakeCore) SetKeyRule(_ context.Context, r rota.KeyRule) (rota.KeyRule, error) {
	return r, c.err
}

func (c *fakeCore) DeleteKeyRule(context.Context, rota.QueueName, string, string) error { return c.err }

func (c *fakeCore) SkipKey(context.Context, rota.QueueName, rota.TenantID, string, rota.JobID) error {
	return c.err
}

func (c *fakeCore) SetBudget(_ context.Context, b rota.Budget) (rota.BudgetState, error) {
	return rota.BudgetState{Budget: b, Spent: 3}, c.err
}

func (c *fakeCore) DeleteBudget(context.Context, rota.BudgetName) error { return c.err }

func (c *fakeCore) GrantBudget(_ context.Context, name rota.BudgetName, of string,
	g rota.BudgetChange) (rota.BudgetAccount, error) {
	return rota.BudgetAccount{Budget: name, Of: of, Granted: g.Amount}, c.err
}

func (c *fakeCore) ResetBudget(context.Context, rota.BudgetName, string, bool, rota.BudgetChange) error {
	return c.err
}

func (c *fakeCore) Budgets(_ context.Context, asking bool,
	opt peer.ReadOptions) ([]rota.BudgetState, rota.ReadAt, error) {
	b := rota.BudgetState{Budget: rota.Budget{Name: "b", Unit: "usd"}}
	if asking {
		b.Asking = 2
	}
	return []rota.BudgetState{b}, fakeAt(opt), c.err
}

func (c *fakeCore) Budget(_ context.Context, name rota.BudgetName,
	opt peer.ReadOptions) (rota.BudgetState, rota.ReadAt, error) {
	return rota.BudgetState{Budget: rota.Budget{Name: name, Unit: "usd"}}, fakeAt(opt), c.err
}

func (c *fakeCore) BudgetAccounts(_ context.Context, f rota.BudgetAccountFilter,
	opt peer.ReadOptions) ([]rota.BudgetAccount, string, rota.ReadAt, error) {
	return []rota.BudgetAccount{{Budget: f.Budget, Of: f.Of, Held: 7, Asks: f.Asking}}, "next", fakeAt(opt), c.err
}

func (c *fakeCore) PauseKey(context.Context, rota.QueueName, rota.TenantID, string, rota.Date, string) error {
	return c.err
}

func (c *fakeCore) ResumeKey(context.Context, rota.QueueName, rota.TenantID, string) error {
	return c.err
}

func (c *fakeCore) KeyRules(_ context.Context, opt peer.ReadOptions) ([]rota.KeyRule, rota.ReadAt, error) {
	return []rota.KeyRule{{Name: "account", Concurrency: 3, Sequence: rota.SequenceSkip}}, fakeAt(opt), c.err
}

func (c *fakeCore) Key(_ context.Context, tenant rota.TenantID, key string,
	opt peer.ReadOptions) ([]rota.KeyState, rota.ReadAt, error) {
	return []rota.KeyState{{Tenant: tenant, Key: key, Jobs: 5, Full: true, Blocker: "j"}}, fakeAt(opt), c.err
}

func (c *fakeCore) KeyStates(_ context.Context, f rota.KeyFilter,
	opt peer.ReadOptions) ([]rota.KeyState, string, rota.ReadAt, error) {
	return []rota.KeyState{{Tenant: "t", Queue: f.Queue, Key: f.Name + ":7", Jobs: int64(f.Limit), Open: 3,
		Concurrency: 3, Full: f.Held == rota.KeyHeldFull}}, "3/5/" + f.Cursor, fakeAt(opt), c.err
}

func (c *fakeCore) SetCluster(_ context.Context, set []rota.Setting) (rota.ClusterSettings, error) {
	settings := rota.DefaultClusterSettings()
	for _, s := range set {
		if err := settings.Set(s); err != nil {
			return settings, err
		}
	}
	return settings, c.err
}

func (c *fakeCore) Mode(_ context.Context, opt peer.ReadOptions) (rota.ModeStatus, rota.ReadAt, error) {
	return rota.ModeStatus{Mode: rota.ModeDraining, Reason: "upgrade", Drained: true, Index: 9}, fakeAt(opt), c.err
}

func (c *fakeCore) SetMode(_ context.Context, mode rota.ClusterMode, reason string) (rota.ModeStatus, error) {
	return rota.ModeStatus{Mode: mode, Reason: reason, Index: 9}, c.err
}

func (c *fakeCore) CreateToken(_ context.Context, t rota.AccessToken, _ [32]byte) (rota.AccessToken, error) {
	t.By = rota.Local
	return t, c.err
}

func (c *fakeCore) InitAuth(_ context.Context, t rota.AccessToken, _ [32]byte, _ bool) (rota.AccessToken, error) {
	t.By = rota.Local
	return t, c.err
}

func (c *fakeCore) AccessTokens(_ context.Context, opt peer.ReadOptions) ([]rota.AccessToken, rota.ReadAt, error) {
	return []rota.AccessToken{{ID: "abcdefghijkl", Roles: []string{"reader"}}}, rota.ReadAt{Index: 1 + opt.MinIndex},
		c.err
}

func (c *fakeCore) SetRole(_ context.Context, role rota.Role) (rota.Role, error) {
	return role, c.err
}

func (c *fakeCore) Roles(context.Context, peer.ReadOptions) ([]rota.Role, rota.ReadAt, error) {
	return access.BuiltInRoles(), rota.ReadAt{}, c.err
}

func (c *fakeCore) Blocks(context.Context, peer.ReadOptions) ([]rota.Block, rota.ReadAt, error) {
	return []rota.Block{{Role: "root", Name: "ann"}}, rota.ReadAt{}, c.err
}

func (c *fakeCore) SetIssuer(_ context.Context, i rota.Issuer) (rota.Issuer, error) {
	return i, c.err
}

func (c *fakeCore) Issuers(context.Context, peer.ReadOptions) ([]rota.Issuer, rota.ReadAt, error) {
	return []rota.Issuer{{URL: "https://idp.example", Audience: "rota"}}, rota.ReadAt{}, c.err
}

func (c *fakeCore) DeleteIssuer(context.Context, string) error { return c.err }

func (c *fakeCore) Exchange(_ context.Context, s access.SignIn) (rota.AccessToken, error) {
	return rota.AccessToken{ID: s.Token, Roles: []string{s.Role}, Expires: s.Until,
		By: rota.OIDCPrincipal(s.Issuer, s.Subject)}, c.err
}

func (c *fakeCore) OpenSession(_ context.Context, id string, _ [32]byte, _ bool,
	until rota.Date) (rota.AccessToken, error) {
	return rota.AccessToken{ID: id, Expires: until, Parent: rota.TokenPrincipal("abcdefghijkl")}, c.err
}

func (c *fakeCore) ClaimSession(_ context.Context, id string, _ [32]byte) (rota.AccessToken, error) {
	return rota.AccessToken{ID: id, Parent: rota.TokenPrincipal("abcdefghijkl")}, c.err
}

func (c *fakeCore) EndSession(_ context.Context, id string) error {
	c.ended = append(c.ended, id)
	return c.err
}

func (c *fakeCore) RevokeToken(context.Context, string) error            { return c.err }
func (c *fakeCore) DeleteRole(context.Context, string) error             { return c.err }
func (c *fakeCore) SetBlock(context.Context, string, string, bool) error { return c.err }
func (c *fakeCore) SetAnonymous(context.Context, []string) error         { return c.err }

func (c *fakeCore) DeleteQueue(context.Context, rota.QueueName, rota.QueueName) (uint64, error) {
	return 0, c.err
}

func (c *fakeCore) DeleteTenant(context.Context, rota.TenantID) error { return c.err }
func (c *fakeCore) DeleteWorker(context.Context, rota.WorkerID) error { return c.err }
