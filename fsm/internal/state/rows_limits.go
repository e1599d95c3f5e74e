package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// TenantRow is a tenant whose limits were set, or that has open leases (SPEC §4.5, §4.9). Other tenants have the
// default limits and no row.
type TenantRow struct {
	RowMeta
	ID     rota.TenantID
	Known  bool
	Limits rota.TenantLimits
	// Open counts its open leases over all queues (invariant I9).
	Open int64
	// ThrottledAt is when throttling of its lanes began, 0 if they are not throttled.
	ThrottledAt rota.Clock
	// By is the principal that set it.
	By rota.Principal
}

// Canonical appends the canonical form for digests and snapshots.
func (r *TenantRow) Canonical(e *Encoder) {
	e.Str(string(r.ID))
	e.Bool(r.Known)
	e.Uint(uint64(r.Limits.Tier))
	e.Int(r.Limits.Weight)
	e.Int(r.Limits.MaxConcurrent)
	e.Int(r.Limits.RateLimitRPS)
	e.Int(r.Limits.PenaltyMs)
	e.Int(r.Limits.BytesMax)
	e.Int(r.Open)
	e.Int(int64(r.ThrottledAt))
	e.Str(string(r.By))
}

// ETag returns the version of a tenant's limits.
func (r *TenantRow) ETag() string { return TenantETag(r.Known, r.Limits) }

// TenantETag returns the version of a tenant and its limits.
func TenantETag(known bool, l rota.TenantLimits) string {
	return EtagOf(func(e *Encoder) {
		e.Bool(known)
		e.Uint(uint64(l.Tier))
		for _, v := range []int64{l.Weight, l.MaxConcurrent, l.RateLimitRPS, l.PenaltyMs, l.BytesMax} {
			e.Int(v)
		}
	})
}

// EtagOf returns the ETag of an object with settings, such as a queue or a role: a hash of these settings.
func EtagOf(canonical func(*Encoder)) string {
	var e Encoder
	canonical(&e)
	sum := sha256.Sum256(e.B)
	return hex.EncodeToString(sum[:8])
}

// DecodeTenant reads the canonical form of a TenantRow.
func DecodeTenant(d *Decoder) *TenantRow {
	return &TenantRow{ID: rota.TenantID(d.Str()), Known: d.Bool(), Limits: rota.TenantLimits{
		Tier: rota.ServiceTier(d.Enum(uint64(rota.TierPremium))), Weight: d.Int(), MaxConcurrent: d.Int(),
		RateLimitRPS: d.Int(), PenaltyMs: d.Int(), BytesMax: d.Int()}, Open: d.Int(), ThrottledAt: rota.Clock(d.Int()),
		By: rota.Principal(d.Str())}
}

// LimiterRow measures a tenant in one queue, or over all queues if Queue is empty: its rate of submissions and its
// rolling window of assignments. A tenant without recent ones has no row.
type LimiterRow struct {
	RowMeta
	// Key is the row's key: see LimiterKey.
	Key    string
	Queue  rota.QueueName
	Tenant rota.TenantID
	// Tat is the theoretical arrival time of the next submission, in nanoseconds on the cluster clock. It is the whole
	// state of a token bucket (SPEC §4.5).
	Tat int64
	// Window counts assignments within tenant_window_ms, in its ok column. Throttled reports that the tenant's lanes in
	// this queue wait until the window has room.
	Window    Window
	Throttled bool
	// Due is the row's due time in the timers. It is calculated, not stored.
	Due rota.Clock
}

// LimiterKey returns the tree key of a rate limiter: queue and tenant.
func LimiterKey(queue rota.QueueName, tenant rota.TenantID) string {
	return string(queue) + "/" + string(tenant)
}

// Canonical appends the canonical form for digests and snapshots.
func (r *LimiterRow) Canonical(e *Encoder) {
	e.Str(string(r.Queue))
	e.Str(string(r.Tenant))
	e.Int(r.Tat)
	encodeSlots(e, &r.Window)
	e.Bool(r.Throttled)
}

// DecodeLimiter reads the canonical form of a LimiterRow.
func DecodeLimiter(d *Decoder) *LimiterRow {
	r := &LimiterRow{Queue: rota.QueueName(d.Str()), Tenant: rota.TenantID(d.Str()), Tat: d.Int(),
		Window:    decodeSlots(d),
		Throttled: d.Bool()}
	r.Key = LimiterKey(r.Queue, r.Tenant)
	return r
}

// DomainRow is a queue's failure domain that had outcomes recently, or is isolated (SPEC §4.8). Other domains have no
// row.
type DomainRow struct {
	RowMeta
	// Key is the row's key: see DomainKey.
	Key      string
	Queue    rota.QueueName
	Name     string
	Window   Window
	Isolated bool
	Since    rota.Moment
	// Tat is the state of the token bucket of probes, as in LimiterRow. Throttled reports that the domain's lanes wait
	// for the next token.
	Tat       int64
	Throttled bool
	// Due is the row's due time in the timers. It is calculated, not stored.
	Due rota.Clock
}

// DomainKey returns the tree key of a failure domain: queue and name.
func DomainKey(queue rota.QueueName, name string) string { return string(queue) + "/" + name }

// Canonical appends the canonical form for digests and snapshots.
func (r *DomainRow) Canonical(e *Encoder) {
	e.Str(string(r.Queue))
	e.Str(r.Name)
	encodeSlots(e, &r.Window)
	e.Bool(r.Isolated)
	e.Moment(r.Since)
	e.Int(r.Tat)
	e.Bool(r.Throttled)
}

// DecodeDomain reads the canonical form of a DomainRow.
func DecodeDomain(d *Decoder) *DomainRow {
	r := &DomainRow{Queue: rota.QueueName(d.Str()), Name: d.Str(), Window: decodeSlots(d), Isolated: d.Bool(),
		Since: d.Moment(), Tat: d.Int(), Throttled: d.Bool()}
	r.Key = DomainKey(r.Queue, r.Name)
	return r
}

// TypeRow holds the statistics of a job type for the adaptive ranking (SPEC §5.3).
type TypeRow struct {
	RowMeta
	Typ        rota.JobType
	Success    int64
	Fail       int64
	EmaUs      int64
	ExpectedMs int64
	Sampled    bool
}

// Canonical appends the canonical form for digests and snapshots.
func (r *TypeRow) Canonical(e *Encoder) {
	e.Str(string(r.Typ))
	e.Int(r.Success)
	e.Int(r.Fail)
	e.Int(r.EmaUs)
	e.Int(r.ExpectedMs)
	e.Bool(r.Sampled)
}

// DecodeType reads the canonical form of a TypeRow.
func DecodeType(d *Decoder) *TypeRow {
	return &TypeRow{Typ: rota.JobType(d.Str()), Success: d.Int(), Fail: d.Int(), EmaUs: d.Int(), ExpectedMs: d.Int(),
		Sampled: d.Bool()}
}

// HoldRow reserves a worker for one QUEUED job (SPEC §7.8). Only a round grants and moves a hold. It ends in the entry
// in which its job leaves QUEUED, its queue is paused, or its worker can no longer run the job.
type HoldRow struct {
	RowMeta
	Job    rota.JobID
	Worker rota.WorkerID
	// Since is when the worker was reserved. Epoch is the round that reserved it.
	Since rota.Clock
	Epoch uint64
	// Turn reports that the hold comes from the worker's turn (SPEC §7.10).
	Turn bool
	// Preempted reports that leases on the worker were revoked for the job; Revoked is their number. Such a hold does
	// not count toward the limit of holds, and never moves (SPEC §7.9).
	Preempted bool
	Revoked   int64
}

// Canonical appends the canonical form for digests and snapshots.
func (r *HoldRow) Canonical(e *Encoder) {
	e.Str(string(r.Job))
	e.Str(string(r.Worker))
	e.Int(int64(r.Since))
	e.Uint(r.Epoch)
	e.Bool(r.Turn)
	e.Bool(r.Preempted)
	e.Int(r.Revoked)
}

// The types of keys of the tables for access control.
type (
	// RoleName names a role.
	RoleName string
	// TokenID names an access token.
	TokenID string
	// BlockKey is ROLE/NAME, both from a client certificate.
	BlockKey string
)

// RoleRow is a role that an operator created, not a built-in one. Its ETag is calculated.
type RoleRow struct {
	RowMeta
	rota.Role
}

// Canonical appends the canonical form for digests and snapshots.
func (r *RoleRow) Canonical(e *Encoder) {
	e.Str(r.Name)
	r.Settings(e)
	e.Str(string(r.By))
	e.Moment(r.At)
}

// Settings writes the settings of a role.
func (r *RoleRow) Settings(e *Encoder) {
	e.Uint(uint64(len(r.Grants)))
	for _, g := range r.Grants {
		e.Uint(uint64(g.Right))
		e.Str(g.Tenant)
		e.Str(g.Queue)
	}
	for what := range access.OwnsEnd {
		e.Int(*what.Of(&r.RoleLimits))
	}
}

// DecodeRole reads the canonical form of a RoleRow.
func DecodeRole(d *Decoder) *RoleRow {
	r := &RoleRow{}
	r.Name = d.Str()
	for range d.Count(limits.MaxGrants) {
		r.Grants = append(r.Grants, rota.Grant{Right: rota.Right(d.Enum(uint64(rota.RightLast))), Tenant: d.Str(),
			Queue: d.Str()})
	}
	for what := range access.OwnsEnd {
		*what.Of(&r.RoleLimits) = d.Int()
	}
	r.By = rota.Principal(d.Str())
	r.At = d.Moment()
	r.ETag = EtagOf(r.Settings)
	return r
}

// TokenRow is an access token, until it expires.
type TokenRow struct {
	RowMeta
	rota.AccessToken
	// Hash is access.Credential.Hash of the token.
	Hash [32]byte
	// Link reports that a session's link has not been claimed. Until is the latest end of the session, set if the state
	// does not contain the date on which its parent's credential ends.
	Link  bool
	Until rota.Date
}

// Canonical appends the canonical form for digests and snapshots.
func (r *TokenRow) Canonical(e *Encoder) {
	e.Str(r.ID)
	e.B = append(e.B, r.Hash[:]...)
	e.strs(r.Roles)
	e.strs(r.Tenants)
	e.strs(r.Queues)
	e.Str(r.WorkerPrefix)
	e.Int(int64(r.Expires))
	e.Str(string(r.By))
	e.Moment(r.Created)
	e.Moment(r.Revoked)
	e.Str(string(r.Parent))
	e.Bool(r.Link)
	e.Int(int64(r.Until))
}

// DecodeToken reads the canonical form of a TokenRow.
func DecodeToken(d *Decoder) *TokenRow {
	r := &TokenRow{}
	r.ID = d.Str()
	copy(r.Hash[:], d.raw(32))
	r.Roles, r.Tenants, r.Queues, r.WorkerPrefix = d.strs(), d.strs(), d.strs(), d.Str()
	r.Expires = rota.Date(d.Int())
	r.By = rota.Principal(d.Str())
	r.Created, r.Revoked = d.Moment(), d.Moment()
	r.Parent, r.Link, r.Until = rota.Principal(d.Str()), d.Bool(), rota.Date(d.Int())
	return r
}

// Live reports whether the token is valid on a date.
func (r *TokenRow) Live(date rota.Date) bool { return r.Revoked.IsZero() && date < r.Expires }

// BlockRow blocks the certificates of a role and a name.
type BlockRow struct {
	RowMeta
	Key BlockKey
	rota.Block
}

// Canonical appends the canonical form for digests and snapshots.
func (r *BlockRow) Canonical(e *Encoder) {
	e.Str(r.Role)
	e.Str(r.Name)
	e.Str(string(r.By))
	e.Moment(r.At)
}

// DecodeBlock reads the canonical form of a BlockRow.
func DecodeBlock(d *Decoder) *BlockRow {
	r := &BlockRow{Block: rota.Block{Role: d.Str(), Name: d.Str(), By: rota.Principal(d.Str()), At: d.Moment()}}
	r.Key = BlockKeyOf(r.Role, r.Name)
	return r
}

// BlockKeyOf returns ROLE/NAME.
func BlockKeyOf(role, name string) BlockKey { return BlockKey(role + "/" + name) }

// IssuerRow is an identity provider whose tokens are accepted. Its ETag is calculated.
type IssuerRow struct {
	RowMeta
	rota.Issuer
}

// Canonical appends the canonical form for digests and snapshots.
func (r *IssuerRow) Canonical(e *Encoder) {
	e.Str(r.URL)
	r.Settings(e)
	e.Str(string(r.By))
	e.Moment(r.At)
}

// Settings writes the settings of an identity provider.
func (r *IssuerRow) Settings(e *Encoder) {
	e.Str(r.Audience)
	e.Str(r.CA)
	e.Uint(uint64(len(r.Maps)))
	for _, m := range r.Maps {
		e.Str(m.Claim)
		e.Str(m.Value)
		e.Str(m.Role)
	}
}

// DecodeIssuer reads the canonical form of an IssuerRow.
func DecodeIssuer(d *Decoder) *IssuerRow {
	r := &IssuerRow{}
	r.URL, r.Audience, r.CA = d.Str(), d.Str(), d.Str()
	for range d.Count(limits.MaxIssuerMaps) {
		r.Maps = append(r.Maps, rota.ClaimRole{Claim: d.Str(), Value: d.Str(), Role: d.Str()})
	}
	r.By = rota.Principal(d.Str())
	r.At = d.Moment()
	r.ETag = EtagOf(r.Settings)
	return r
}

// SpentRow is the hash of an identity token that was exchanged. It is kept until that token expires.
type SpentRow struct {
	RowMeta
	Hash [32]byte
	// Token is the id of the access token that the exchange created.
	Token string
	Until rota.Date
}

// Canonical appends the canonical form for digests and snapshots.
func (r *SpentRow) Canonical(e *Encoder) {
	e.B = append(e.B, r.Hash[:]...)
	e.Str(r.Token)
	e.Int(int64(r.Until))
}

// DecodeSpent reads the canonical form of a SpentRow.
func DecodeSpent(d *Decoder) *SpentRow {
	r := &SpentRow{}
	copy(r.Hash[:], d.raw(32))
	r.Token, r.Until = d.Str(), rota.Date(d.Int())
	return r
}

// BackupRow is the last backup that a leader stored: the only row of its table.
type BackupRow struct {
	RowMeta
	// Index is the index of the state in the backup. Entry is the index of the entry that recorded the backup.
	Index, Entry rota.Index
	// Whole reports that no other entry lies between the two.
	Whole bool
	At    rota.Moment
	Name  string
	Sum   [sha256.Size]byte
	Bytes int64
}

// TreeKey returns the key of the only row.
func (r *BackupRow) TreeKey() string { return "" }

// Canonical appends the canonical form for digests and snapshots.
func (r *BackupRow) Canonical(e *Encoder) {
	e.Uint(uint64(r.Index))
	e.Uint(uint64(r.Entry))
	e.Bool(r.Whole)
	e.Moment(r.At)
	e.Str(r.Name)
	e.B = append(e.B, r.Sum[:]...)
	e.Int(r.Bytes)
}

// DecodeBackup reads the canonical form of a BackupRow.
func DecodeBackup(d *Decoder) *BackupRow {
	r := &BackupRow{Index: rota.Index(d.Uint()), Entry: rota.Index(d.Uint()), Whole: d.Bool(), At: d.Moment(),
		Name: d.Str()}
	copy(r.Sum[:], d.raw(sha256.Size))
	r.Bytes = d.Int()
	return r
}

// ETag returns the version and the date on which it was set. The date distinguishes the webhook from a deleted one of
// the same name.
func (r *HookRow) ETag() string { return fmt.Sprintf("%d-%d", r.Version, int64(r.Set)) }

// Words returns the row in its public form.
func (r *HookRow) Words() rota.Webhook {
	w := rota.Webhook{WebhookSpec: r.Spec, Why: r.Why, Version: r.Version, ETag: r.ETag(), Began: r.Began,
		Cursor: r.Cursor, Pending: r.Pending,
		Delivered: r.Delivered, Failed: r.Failed, Gaps: r.Gaps, Sees: slices.Clone(r.Sees), Rotated: r.Rotated,
		Set: r.Set, By: r.By}
	w.Kinds = slices.Clone(w.Kinds)
	if r.Disabled {
		w.State = rota.WebhookDisabled
	}
	if r.Gaps > 0 {
		w.Gap = &rota.WebhookGap{After: r.GapFrom, Before: r.GapUntil}
	}
	return w
}

// Full reports whether a tenant has reached its maximum of open leases.
func (r *TenantRow) Full() bool {
	return r.Limits.MaxConcurrent > 0 && r.Open >= r.Limits.MaxConcurrent
}

// PenaltyAt returns when the penalty of a throttled tenant ends. It is 0 while the tenant is full or not throttled.
func (r *TenantRow) PenaltyAt() rota.Clock {
	if r.ThrottledAt == 0 || r.Full() {
		return 0
	}
	return r.ThrottledAt + rota.Clock(r.Limits.PenaltyMs)
}

// Set stores the statistics of a job type.
func (r *TypeRow) Set(s sched.Stats) {
	r.Success, r.Fail, r.EmaUs, r.Sampled = s.Success, s.Fail, s.EMAus, s.Sampled
}

// Stats returns the statistics of a job type.
func (r *TypeRow) Stats() sched.Stats {
	return sched.Stats{Success: r.Success, Fail: r.Fail, EMAus: r.EmaUs, Sampled: r.Sampled}
}
