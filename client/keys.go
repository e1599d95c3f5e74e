package client

import (
	"context"
	"iter"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Keys sets and reads the limits on jobs that share a key (SPEC §19).
type Keys struct{ c *Client }

// Keys returns the calls for keys and their rules.
func (c *Client) Keys() Keys { return Keys{c} }

// SetRule sets the rule for jobs of a key, and replaces the rule of the same queue, name and value. Existing jobs count
// at once; no lease is revoked. A rule with an ETag, as Rules returns it, replaces only that version.
func (k Keys) SetRule(ctx context.Context, rule rota.KeyRule, only ...Condition) error {
	return k.c.call(ctx, "set key rule", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.keys.Set(ctx, &rotav1.SetKeyRuleRequest{Rule: words.KeyRuleToWire(&rule), IfMatch: etagOf(only)})
		return err
	})
}

// DeleteRule deletes the rule of a queue ("" for all), a name and a value ("" for all); a missing rule is not an error.
func (k Keys) DeleteRule(ctx context.Context, queue rota.QueueName, name, value string, only ...Condition) error {
	return k.c.call(ctx, "delete key rule", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.keys.Delete(ctx, &rotav1.DeleteKeyRuleRequest{Queue: string(queue), Name: name, Value: value,
			IfMatch: etagOf(only)})
		return err
	})
}

// Rules lists the rules of keys by queue, name and value.
func (k Keys) Rules(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.KeyRule, error] {
	return list(ctx, k.c, "list key rules", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.KeyRule], err error) {
			answer, err := n.keys.List(ctx, &rotav1.ListKeyRulesRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor})
			if err != nil {
				return got, err
			}
			got.items, err = words.KeyRulesFromWire(answer.GetRules())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// State reads the current counts of a tenant's key, name:value, under each rule that applies to it.
func (k Keys) State(ctx context.Context, tenant rota.TenantID, key string,
	opts ...ReadOption) ([]rota.KeyState, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetKeyResponse, error) {
		return n.keys.Get(ctx, &rotav1.GetKeyRequest{Tenant: string(tenant), Key: key, Read: how})
	}
	from := func(w *rotav1.GetKeyResponse) ([]rota.KeyState, error) { return words.KeyStatesFromWire(w.GetKeys()) }
	return read(ctx, k.c, "show key", opts, from, ask)
}

// List lists the keys that rules count, the most used first in the order of the filter. A key whose use changes
// meanwhile may appear twice, or not at all.
func (k Keys) List(ctx context.Context, filter rota.KeyFilter, opts ...ReadOption) iter.Seq2[rota.KeyState, error] {
	return list(ctx, k.c, "list keys", filter.Limit, filter.Cursor, opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.KeyState], err error) {
			answer, err := n.keys.States(ctx, &rotav1.ListKeyStatesRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor,
				Queue: string(filter.Queue), Tenant: string(filter.Tenant), Name: filter.Name,
				Held: filter.Held.String(), By: filter.By.String()})
			if err != nil {
				return got, err
			}
			got.items, err = words.KeyStatesFromWire(answer.GetKeys())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Skip lets a sequence continue after the job that blocks it: pass the Queue, the Tenant, the Key and the Blocker of a
// state. It is idempotent.
func (k Keys) Skip(ctx context.Context, blocked rota.KeyState) error {
	return k.c.call(ctx, "skip key", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.keys.Skip(ctx, &rotav1.SkipKeyRequest{Queue: string(blocked.Queue), Tenant: string(blocked.Tenant),
			Key: blocked.Key,
			Job: string(blocked.Blocker)})
		return err
	})
}

// Pause holds the jobs of a key until a date, at most a year ahead; the zero time is until Resume. queue and tenant are
// those in which the key's rule counts it: no queue for the rule of all queues, no tenant for the scope of the cluster.
// The later of two pauses applies.
func (k Keys) Pause(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string, until time.Time,
	reason string) error {
	req := &rotav1.PauseKeyRequest{Queue: string(queue), Tenant: string(tenant), Key: key, Reason: reason}
	if !until.IsZero() {
		req.UntilMs = until.UnixMilli()
	}
	return k.c.call(ctx, "pause key", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.keys.Pause(ctx, req)
		return err
	})
}

// Resume ends the pause of a key, and closes its breaker; queue and tenant are those of Pause. It is idempotent.
func (k Keys) Resume(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string) error {
	return k.c.call(ctx, "resume key", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.keys.Resume(ctx, &rotav1.ResumeKeyRequest{Queue: string(queue), Tenant: string(tenant), Key: key})
		return err
	})
}
