package fsm

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

// tenantRow is a tenant that somebody set, or that has leases open (SPEC §4.5,
// §4.9). Others have the default limits and no row.
type tenantRow struct {
	rowMeta
	id     rota.TenantID
	known  bool
	limits rota.TenantLimits
	// open counts its open leases over all queues. Invariant I9.
	open int64
	// throttledAt is since when its lanes are throttled, 0 if they are not.
	throttledAt rota.Clock
	// by is who made it known.
	by rota.Principal
}

func (r *tenantRow) canonical(e *encoder) {
	e.str(string(r.id))
	e.bool(r.known)
	e.uint(uint64(r.limits.Tier))
	e.int(r.limits.Weight)
	e.int(r.limits.MaxConcurrent)
	e.int(r.limits.RateLimitRPS)
	e.int(r.limits.PenaltyMs)
	e.int(r.limits.BytesMax)
	e.int(r.open)
	e.int(int64(r.throttledAt))
	e.str(string(r.by))
}

// etag is the version of a tenant's limits.
func (r *tenantRow) etag() string { return tenantETag(r.known, r.limits) }

func tenantETag(known bool, l rota.TenantLimits) string {
	return etagOf(func(e *encoder) {
		e.bool(known)
		e.uint(uint64(l.Tier))
		for _, v := range []int64{l.Weight, l.MaxConcurrent, l.RateLimitRPS, l.PenaltyMs, l.BytesMax} {
			e.int(v)
		}
	})
}

// etagOf is the version of an object that can be set: a hash of its settings.
func etagOf(canonical func(*encoder)) string {
	var e encoder
	canonical(&e)
	sum := sha256.Sum256(e.b)
	return hex.EncodeToString(sum[:8])
}

func decodeTenant(d *decoder) *tenantRow {
	return &tenantRow{id: rota.TenantID(d.str()), known: d.bool(), limits: rota.TenantLimits{
		Tier: rota.ServiceTier(d.enum(uint64(rota.TierPremium))), Weight: d.int(), MaxConcurrent: d.int(),
		RateLimitRPS: d.int(), PenaltyMs: d.int(), BytesMax: d.int()}, open: d.int(), throttledAt: rota.Clock(d.int()), by: rota.Principal(d.str())}
}

// limiterRow measures a tenant in a queue, or, with an empty queue, over all of
// them: its rate of submissions and its rolling window of assignments. At rest
// there is no row.
type limiterRow struct {
	rowMeta
	// key is the limiterKey, by which the row is found.
	key    string
	queue  rota.QueueName
	tenant rota.TenantID
	// tat is the theoretical arrival time of the next submission, in nanoseconds on
	// the cluster clock: the one integer of a token bucket (SPEC §4.5).
	tat int64
	// window counts assignments (its ok) of tenant_window_ms; throttled says that the
	// tenant's lanes in this queue wait for it.
	window    window
	throttled bool
	// due is derived: where the row stands in the timers.
	due rota.Clock
}

func limiterKey(queue rota.QueueName, tenant rota.TenantID) string {
	return string(queue) + "/" + string(tenant)
}

func (r *limiterRow) canonical(e *encoder) {
	e.str(string(r.queue))
	e.str(string(r.tenant))
	e.int(r.tat)
	encodeSlots(e, &r.window)
	e.bool(r.throttled)
}

func decodeLimiter(d *decoder) *limiterRow {
	r := &limiterRow{queue: rota.QueueName(d.str()), tenant: rota.TenantID(d.str()), tat: d.int(), window: decodeSlots(d),
		throttled: d.bool()}
	r.key = limiterKey(r.queue, r.tenant)
	return r
}

// domainRow is a queue's failure domain that had outcomes lately, or is isolated
// (SPEC §4.8). At rest there is no row.
type domainRow struct {
	rowMeta
	// key is the domainKey, by which the row is found.
	key      string
	queue    rota.QueueName
	name     string
	window   window
	isolated bool
	since    rota.Moment
	// tat is the probe bucket's, as in limiterRow; throttled says that its lanes wait for
	// the next token.
	tat       int64
	throttled bool
	// due is derived: where the row stands in the timers.
	due rota.Clock
}

func domainKey(queue rota.QueueName, name string) string { return string(queue) + "/" + name }

func (r *domainRow) canonical(e *encoder) {
	e.str(string(r.queue))
	e.str(r.name)
	encodeSlots(e, &r.window)
	e.bool(r.isolated)
	e.moment(r.since)
	e.int(r.tat)
	e.bool(r.throttled)
}

func decodeDomain(d *decoder) *domainRow {
	r := &domainRow{queue: rota.QueueName(d.str()), name: d.str(), window: decodeSlots(d), isolated: d.bool(),
		since: d.moment(), tat: d.int(), throttled: d.bool()}
	r.key = domainKey(r.queue, r.name)
	return r
}

// typeRow is what the adaptive ranking knows of a job type (SPEC §5.3).
type typeRow struct {
	rowMeta
	typ        rota.JobType
	success    int64
	fail       int64
	emaUs      int64
	expectedMs int64
	sampled    bool
}

func (r *typeRow) canonical(e *encoder) {
	e.str(string(r.typ))
	e.int(r.success)
	e.int(r.fail)
	e.int(r.emaUs)
	e.int(r.expectedMs)
	e.bool(r.sampled)
}

func decodeType(d *decoder) *typeRow {
	return &typeRow{typ: rota.JobType(d.str()), success: d.int(), fail: d.int(), emaUs: d.int(), expectedMs: d.int(),
		sampled: d.bool()}
}

// holdRow keeps a worker for one QUEUED job (SPEC §7.8). A hold is granted and
// moved by a round only; it ends by itself, in the entry in which its job leaves
// QUEUED, its queue is paused, or its worker can no longer take it.
type holdRow struct {
	rowMeta
	job    rota.JobID
	worker rota.WorkerID
	// since is when this worker was held, epoch the round that decided so.
	since rota.Clock
	epoch uint64
	// turn says that the worker owes the job its turn (SPEC §7.10).
	turn bool
	// preempted says that leases give way for the job there, revoked how many: such
	// a hold is outside the bound and never moves (SPEC §7.9).
	preempted bool
	revoked   int64
}

func (r *holdRow) canonical(e *encoder) {
	e.str(string(r.job))
	e.str(string(r.worker))
	e.int(int64(r.since))
	e.uint(r.epoch)
	e.bool(r.turn)
	e.bool(r.preempted)
	e.int(r.revoked)
}

// The keys of the tables of rights.
type (
	roleName string
	tokenID  string
	// blockKey is ROLE/NAME of a client certificate.
	blockKey string
)

// roleRow is a role that somebody set. Its ETag is derived.
type roleRow struct {
	rowMeta
	rota.Role
}

func (r *roleRow) canonical(e *encoder) {
	e.str(r.Name)
	r.settings(e)
	e.str(string(r.By))
	e.moment(r.At)
}

// settings writes what can be set of a role.
func (r *roleRow) settings(e *encoder) {
	e.uint(uint64(len(r.Grants)))
	for _, g := range r.Grants {
		e.uint(uint64(g.Right))
		e.str(g.Tenant)
		e.str(g.Queue)
	}
	for what := range access.OwnsEnd {
		e.int(*what.Of(&r.RoleLimits))
	}
}

func decodeRole(d *decoder) *roleRow {
	r := &roleRow{}
	r.Name = d.str()
	for range d.count(limits.MaxGrants) {
		r.Grants = append(r.Grants, rota.Grant{Right: rota.Right(d.enum(uint64(rota.RightDebug))), Tenant: d.str(), Queue: d.str()})
	}
	for what := range access.OwnsEnd {
		*what.Of(&r.RoleLimits) = d.int()
	}
	r.By = rota.Principal(d.str())
	r.At = d.moment()
	r.ETag = etagOf(r.settings)
	return r
}

// tokenRow is an access token, until it expires.
type tokenRow struct {
	rowMeta
	rota.AccessToken
	// hash is what the token is known by: access.Credential.Hash.
	hash [32]byte
	// link says of a session that its link has not been claimed; until is when the session ends at
	// the latest, where what its parent shows ends by a date that the state does not know.
	link  bool
	until rota.Date
}

func (r *tokenRow) canonical(e *encoder) {
	e.str(r.ID)
	e.b = append(e.b, r.hash[:]...)
	e.strs(r.Roles)
	e.strs(r.Tenants)
	e.strs(r.Queues)
	e.str(r.WorkerPrefix)
	e.int(int64(r.Expires))
	e.str(string(r.By))
	e.moment(r.Created)
	e.moment(r.Revoked)
	e.str(string(r.Parent))
	e.bool(r.link)
	e.int(int64(r.until))
}

func decodeToken(d *decoder) *tokenRow {
	r := &tokenRow{}
	r.ID = d.str()
	copy(r.hash[:], d.raw(32))
	r.Roles, r.Tenants, r.Queues, r.WorkerPrefix = d.strs(), d.strs(), d.strs(), d.str()
	r.Expires = rota.Date(d.int())
	r.By = rota.Principal(d.str())
	r.Created, r.Revoked = d.moment(), d.moment()
	r.Parent, r.link, r.until = rota.Principal(d.str()), d.bool(), rota.Date(d.int())
	return r
}

// live reports whether the token counts on a date.
func (r *tokenRow) live(date rota.Date) bool { return r.Revoked.IsZero() && date < r.Expires }

// blockRow refuses the certificates of a role and a name.
type blockRow struct {
	rowMeta
	key blockKey
	rota.Block
}

func (r *blockRow) canonical(e *encoder) {
	e.str(r.Role)
	e.str(r.Name)
	e.str(string(r.By))
	e.moment(r.At)
}

func decodeBlock(d *decoder) *blockRow {
	r := &blockRow{Block: rota.Block{Role: d.str(), Name: d.str(), By: rota.Principal(d.str()), At: d.moment()}}
	r.key = blockKeyOf(r.Role, r.Name)
	return r
}

func blockKeyOf(role, name string) blockKey { return blockKey(role + "/" + name) }

// issuerRow is an identity provider whose tokens are taken. Its ETag is derived.
type issuerRow struct {
	rowMeta
	rota.Issuer
}

func (r *issuerRow) canonical(e *encoder) {
	e.str(r.URL)
	r.settings(e)
	e.str(string(r.By))
	e.moment(r.At)
}

// settings writes what can be set of an identity provider.
func (r *issuerRow) settings(e *encoder) {
	e.str(r.Audience)
	e.str(r.CA)
	e.uint(uint64(len(r.Maps)))
	for _, m := range r.Maps {
		e.str(m.Claim)
		e.str(m.Value)
		e.str(m.Role)
	}
}

func decodeIssuer(d *decoder) *issuerRow {
	r := &issuerRow{}
	r.URL, r.Audience, r.CA = d.str(), d.str(), d.str()
	for range d.count(limits.MaxIssuerMaps) {
		r.Maps = append(r.Maps, rota.ClaimRole{Claim: d.str(), Value: d.str(), Role: d.str()})
	}
	r.By = rota.Principal(d.str())
	r.At = d.moment()
	r.ETag = etagOf(r.settings)
	return r
}

// spentRow is an identity token that was exchanged, by its hash, until it ends.
type spentRow struct {
	rowMeta
	hash [32]byte
	// token is the access token that it was exchanged for.
	token string
	until rota.Date
}

func (r *spentRow) canonical(e *encoder) {
	e.b = append(e.b, r.hash[:]...)
	e.str(r.token)
	e.int(int64(r.until))
}

func decodeSpent(d *decoder) *spentRow {
	r := &spentRow{}
	copy(r.hash[:], d.raw(32))
	r.token, r.until = d.str(), rota.Date(d.int())
	return r
}

// backupRow is the last backup that a leader stored: the only row of its table.
type backupRow struct {
	rowMeta
	// index is that of the state in it; entry the one that told of it.
	index, entry rota.Index
	// whole says that nothing but its own telling came in between.
	whole bool
	at    rota.Moment
	name  string
	sum   [sha256.Size]byte
	bytes int64
}

// TreeKey is the only one.
func (r *backupRow) TreeKey() string { return "" }

func (r *backupRow) canonical(e *encoder) {
	e.uint(uint64(r.index))
	e.uint(uint64(r.entry))
	e.bool(r.whole)
	e.moment(r.at)
	e.str(r.name)
	e.b = append(e.b, r.sum[:]...)
	e.int(r.bytes)
}

func decodeBackup(d *decoder) *backupRow {
	r := &backupRow{index: rota.Index(d.uint()), entry: rota.Index(d.uint()), whole: d.bool(), at: d.moment(), name: d.str()}
	copy(r.sum[:], d.raw(sha256.Size))
	r.bytes = d.int()
	return r
}

// etag is the version and the date it was set, which differs from that of an earlier webhook of the
// same name.
func (r *hookRow) etag() string { return fmt.Sprintf("%d-%d", r.version, int64(r.set)) }

func (r *hookRow) words() rota.Webhook {
	w := rota.Webhook{WebhookSpec: r.spec, Why: r.why, Version: r.version, ETag: r.etag(), Began: r.began, Cursor: r.cursor, Pending: r.pending,
		Delivered: r.delivered, Failed: r.failed, Gaps: r.gaps, Sees: slices.Clone(r.sees), Rotated: r.rotated, Set: r.set, By: r.by}
	w.Kinds = slices.Clone(w.Kinds)
	if r.disabled {
		w.State = rota.WebhookDisabled
	}
	if r.gaps > 0 {
		w.Gap = &rota.WebhookGap{After: r.gapFrom, Before: r.gapUntil}
	}
	return w
}

// full reports whether a tenant has as many leases open as it may.
func (r *tenantRow) full() bool {
	return r.limits.MaxConcurrent > 0 && r.open >= r.limits.MaxConcurrent
}

// penaltyAt is when the penalty of a throttled tenant ends, once one of its leases
// has; 0 for never.
func (r *tenantRow) penaltyAt() rota.Clock {
	if r.throttledAt == 0 || r.full() {
		return 0
	}
	return r.throttledAt + rota.Clock(r.limits.PenaltyMs)
}

func (r *typeRow) set(s sched.Stats) {
	r.success, r.fail, r.emaUs, r.sampled = s.Success, s.Fail, s.EMAus, s.Sampled
}

func (r *typeRow) stats() sched.Stats {
	return sched.Stats{Success: r.success, Fail: r.fail, EMAus: r.emaUs, Sampled: r.sampled}
}
