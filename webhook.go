package rota

import (
	"slices"
	"strings"
)

// WebhookName names a webhook.
type WebhookName string

// Deliveries of webhooks are jobs of this type, in this queue, of this tenant. The tenant belongs to no user, so that
// no user can read the deliveries of another user's webhook (SPEC §13.14).
const (
	WebhookQueue  QueueName = "rota-webhooks"
	WebhookTenant TenantID  = "rota-webhooks"
	WebhookType   JobType   = "rota.webhook"
)

// WebhookState is the state of a webhook.
type WebhookState uint8

// The states.
const (
	// WebhookActive: the events that it selects become deliveries.
	WebhookActive WebhookState = iota
	// WebhookDisabled: its cursor and its pending deliveries wait until it is resumed.
	WebhookDisabled
)

var webhookStateNames = []string{"ACTIVE", "DISABLED"}

// String names the state in capitals.
func (s WebhookState) String() string { return nameOf(webhookStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s WebhookState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *WebhookState) UnmarshalText(text []byte) error {
	v, err := valueOf(webhookStateNames, "state", text)
	*s = WebhookState(v)
	return err
}

// WebhookSpec is the definition of a webhook (SPEC §13.14).
type WebhookSpec struct {
	Name WebhookName `json:"name"`
	// URL is the address to which its events are posted: http or https, without credentials.
	URL string `json:"url"`
	// Kinds are the kinds of events that it selects; empty means all.
	Kinds []EventKind `json:"kinds,omitempty"`
	// Filter narrows the events: a line of the terms queue, tenant, id, schedule and workflow.
	Filter string `json:"filter,omitempty"`
	// Generation is that of its secret: one more rotates the secret; 0 leaves it unchanged.
	Generation uint64 `json:"generation,omitempty"`
}

// Webhook is the current state of a webhook.
type Webhook struct {
	WebhookSpec
	State WebhookState `json:"state"`
	// Why explains why it is disabled, or why its cursor waits.
	Why string `json:"why,omitempty"`
	// Version grows by one with each change of its definition or state.
	Version uint64 `json:"version"`
	// ETag identifies this version; no earlier webhook of the name had it. Pass it to client.IfMatch, or in the header
	// If-Match, to change that version only.
	ETag string `json:"etag,omitempty"`
	// Began is the event of its creation, Cursor the last decided event. The selected events between them became
	// deliveries.
	Began  EventID `json:"began"`
	Cursor EventID `json:"cursor"`
	// Pending counts live deliveries, Delivered those that ended COMPLETED, Failed those that ended DEAD or EXPIRED.
	Pending   int64 `json:"pending"`
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
	// Gaps counts the ranges of events that were no longer retained at the cursor; Gap is the last.
	Gaps uint64      `json:"gaps,omitempty"`
	Gap  *WebhookGap `json:"gap,omitempty"`
	// Sees are the rights by which events are selected: those that its principal had when it was set.
	Sees []Grant `json:"sees"`
	// Rotated is when its secret was last changed; the previous one also signs for a day.
	Rotated Date `json:"rotated_ms,omitempty"`
	// Set is when it was last set, By the principal that set it.
	Set Date      `json:"set_ms"`
	By  Principal `json:"by,omitempty"`
}

// WebhookGap is a range of missed events: those between two events, if any.
type WebhookGap struct {
	After  EventID `json:"after"`
	Before EventID `json:"before"`
}

// Check rejects an invalid name of a webhook; the error names the field.
func (n WebhookName) Check(field string) error {
	if len(n) > MaxWebhookName {
		return TooLong(field, len(n), MaxWebhookName)
	}
	return CheckID(field, n)
}

// CheckShape rejects a webhook whose fields are out of range. Its filter is checked by the code that parses it.
func (s *WebhookSpec) CheckShape() error {
	if err := s.Name.Check("name"); err != nil {
		return err
	}
	if err := checkWebhookURL(s.URL); err != nil {
		return err
	}
	if n := len(s.Kinds); n > len(eventKindNames)-1 {
		return TooMany("kinds", n, len(eventKindNames)-1)
	}
	for i, k := range s.Kinds {
		if k == EventNone || int(k) >= len(eventKindNames) {
			return Refusef(KindInvalid, "kinds", "kinds: unknown event kind %d; use 1 to %d", k, len(eventKindNames)-1)
		}
		if slices.Contains(s.Kinds[:i], k) {
			return Refusef(KindInvalid, "kinds", "kinds: got %s twice; name each kind once", k)
		}
	}
	if n := len(s.Filter); n > MaxWebhookFilter {
		return TooLong("filter", n, MaxWebhookFilter)
	}
	return nil
}

// checkWebhookURL rejects a URL to which no delivery may be posted, by its text alone. Nodes of different releases must
// agree, so it does not depend on net/url; the call that sets a webhook parses the URL in addition.
func checkWebhookURL(url string) error {
	bad := func(format string, args ...any) error { return Refusef(KindInvalid, "url", "url "+format, args...) }
	if url == "" {
		return bad("is missing: set where to post the events, such as https://example.com/rota")
	}
	if len(url) > MaxWebhookURL {
		return bad("too long: got %d bytes, maximum %d", len(url), MaxWebhookURL)
	}
	rest, ok := strings.CutPrefix(url, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(url, "http://"); !ok {
			return bad("must begin with https:// or http://, got %.80q", url)
		}
	}
	for i := range len(url) {
		if c := url[i]; c <= ' ' || c > '~' || strings.IndexByte("\"<>\\^`{|}#", c) >= 0 {
			return bad("%.80q has the character %q: encode it, and omit the fragment", url, c)
		}
	}
	host := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		host = rest[:end]
	}
	if at := strings.IndexByte(host, '@'); at >= 0 {
		return bad("has credentials before the host: omit them, receivers verify a delivery by its signature")
	}
	if host == "" || host[0] == ':' {
		return bad("%.80q has no host", url)
	}
	for i := range len(host) {
		if c := host[i]; (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte("-.:[]", c) < 0 {
			return bad("%.80q has a host with the character %q", url, c)
		}
	}
	return nil
}

// DeliveryID returns the id of the job that delivers an event to a webhook: HOOK@EVENT.
func DeliveryID(hook WebhookName, event EventID) JobID {
	return JobID(string(hook) + "@" + event.String())
}

// SplitDeliveryID returns the webhook and the event that a job is the delivery of; ok is false for
// other jobs.
func SplitDeliveryID(id JobID) (hook WebhookName, event EventID, ok bool) {
	name, text, found := strings.Cut(string(id), "@")
	if !found || strings.Contains(name, "/") { // a node's name may have any character
		return "", EventID{}, false
	}
	event, err := ParseEventID(text)
	return WebhookName(name), event, err == nil && !event.IsZero()
}
