package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// TenantToWire converts a tenant with its limits.
func TenantToWire(t *rota.Tenant) *rotav1.Tenant {
	return &rotav1.Tenant{
		Id: string(t.ID), Tier: serviceTiers.text(t.Tier), Weight: t.Weight, MaxConcurrent: t.MaxConcurrent,
		RateLimitRps: t.RateLimitRPS, PenaltyMs: t.PenaltyMs, OpenLeases: t.Open, Throttled: t.Throttled,
		Known: t.Known, Bytes: t.Bytes, BytesMax: t.BytesMax, Changes: changesToWire(t.Changes), Etag: t.ETag,
		RateLeft: t.RateLeft,
	}
}

// TenantFromWire is the inverse of TenantToWire.
func TenantFromWire(w *rotav1.Tenant) (rota.Tenant, error) {
	tier, err := serviceTiers.value(w.GetTier())
	return rota.Tenant{
		ID: rota.TenantID(w.GetId()), TenantLimits: rota.TenantLimits{
			Tier: tier, Weight: w.GetWeight(), MaxConcurrent: w.GetMaxConcurrent(), RateLimitRPS: w.GetRateLimitRps(),
			PenaltyMs: w.GetPenaltyMs(), BytesMax: w.GetBytesMax(),
		},
		Open: w.GetOpenLeases(), Throttled: w.GetThrottled(), Known: w.GetKnown(), Bytes: w.GetBytes(),
		Changes: changesFromWire(w.GetChanges()), ETag: w.GetEtag(), RateLeft: w.GetRateLeft(),
	}, err
}

// TenantsFromWire converts a list of tenants.
func TenantsFromWire(w []*rotav1.Tenant) ([]rota.Tenant, error) { return tryEach(w, TenantFromWire) }

// ClusterSettingsToWire converts the cluster's own settings.
func ClusterSettingsToWire(c *rota.ClusterSettings) *rotav1.ClusterSettings {
	return &rotav1.ClusterSettings{StateBytesMax: c.StateBytesMax, VotersWanted: c.VotersWanted, Autopilot: c.Autopilot,
		Changes: changesToWire(c.Changes), Etag: c.ETag}
}

// ClusterSettingsFromWire is the inverse of ClusterSettingsToWire.
func ClusterSettingsFromWire(w *rotav1.ClusterSettings) (rota.ClusterSettings, error) {
	return rota.ClusterSettings{StateBytesMax: w.GetStateBytesMax(), VotersWanted: w.GetVotersWanted(),
		Autopilot: w.GetAutopilot(), Changes: changesFromWire(w.GetChanges()), ETag: w.GetEtag()}, nil
}

// ModeToWire converts the cluster's mode and the reason for it.
func ModeToWire(m *rota.ModeStatus) *rotav1.Mode {
	return &rotav1.Mode{
		Mode: m.Mode.String(), Reason: clean(m.Reason), SinceMs: int64(m.Since.Date),
		SinceClockMs: int64(m.Since.Clock), Auto: m.Auto, Holds: m.Holds,
		Drained: m.Drained, Index: uint64(m.Index),
	}
}

// ModeFromWire is the inverse of ModeToWire.
func ModeFromWire(w *rotav1.Mode) (rota.ModeStatus, error) {
	mode, err := modes.value(w.GetMode())
	return rota.ModeStatus{
		Mode: mode, Reason: w.GetReason(), Since: moment(w.GetSinceMs(), w.GetSinceClockMs()), Auto: w.GetAuto(),
		Holds:   w.GetHolds(),
		Drained: w.GetDrained(), Index: rota.Index(w.GetIndex()),
	}, err
}
