package rota

import (
	"slices"
	"strconv"
	"strings"
)

// Right is a right that a grant gives to its holder.
type Right uint8

// The rights, in the order of the table in docs/security.md.
const (
	RightNone Right = iota
	// RightSubmit admits jobs and workflows.
	RightSubmit
	// RightRead reads jobs, workflows, queues, tenants and events.
	RightRead
	// RightData allows reading the contents that users put into them: payloads, outputs, errors, notes.
	RightData
	// RightControl cancels, retries, changes and deletes jobs and workflows.
	RightControl
	// RightVerdict reports invalid proofs.
	RightVerdict
	// RightWork registers workers and works on leases.
	RightWork
	// RightWorkers drains, suspends, resumes and retires others' workers.
	RightWorkers
	// RightQueue sets queues.
	RightQueue
	// RightTenant sets tenants.
	RightTenant
	// RightStatus reads how the cluster and its workers do.
	RightStatus
	// RightOperate changes the mode, the members and the leader.
	RightOperate
	// RightBackup saves snapshots.
	RightBackup
	// RightAudit allows reading events that belong to no tenant.
	RightAudit
	// RightAuth changes roles, tokens and blocks.
	RightAuth
	// RightDebug reads the profiles of a node.
	RightDebug
	// RightBudget sets and deletes budgets, and resets their spent amounts.
	RightBudget
	// RightGrant adds to a budget for its present period.
	RightGrant
)

// RightLast is the last right.
const RightLast = RightGrant

var rightNames = []string{"none", "submit", "read", "data", "control", "verdict", "work", "workers", "queue", "tenant",
	"status", "operate", "backup", "audit", "auth", "debug", "budget", "grant"}

// String names the right in small letters.
func (r Right) String() string {
	if r > RightLast {
		return "UNKNOWN_" + strconv.Itoa(int(r))
	}
	return rightNames[r]
}

// MarshalText implements encoding.TextMarshaler.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Right) UnmarshalText(text []byte) error {
	i := slices.Index(rightNames, string(text))
	if i < 0 {
		return NotOneOf("right", string(text), rightNames[1:]...)
	}
	*r = Right(i)
	return nil
}

// ByTenant reports whether a tenant scopes the right: a grant of it may name one.
func (r Right) ByTenant() bool {
	return r >= RightSubmit && r <= RightWork || r == RightTenant || r >= RightBudget
}

// ByQueue reports whether a queue scopes the right.
func (r Right) ByQueue() bool { return r >= RightSubmit && r <= RightQueue || r >= RightBudget }

// Grant is one right over the tenants and queues that match the patterns: an id, or a prefix and "*".
type Grant struct {
	Right  Right  `json:"right"`
	Tenant string `json:"tenant"`
	Queue  string `json:"queue"`
}

// String returns the grant as right:tenant:queue, without the parts that do not scope the right.
func (g Grant) String() string {
	s := g.Right.String()
	if g.Right.ByTenant() {
		s += " tenant=" + g.Tenant
	}
	if g.Right.ByQueue() {
		s += " queue=" + g.Queue
	}
	return s
}

// RoleLimits limit what each principal of a role may own; 0 means the usual limit. If a principal has several roles,
// the most generous limit applies.
type RoleLimits struct {
	MaxQueues    int64 `json:"max_queues,omitempty"`
	MaxTenants   int64 `json:"max_tenants,omitempty"`
	MaxWorkers   int64 `json:"max_workers,omitempty"`
	MaxWorkflows int64 `json:"max_workflows,omitempty"`
	MaxTokens    int64 `json:"max_tokens,omitempty"`
	MaxSchedules int64 `json:"max_schedules,omitempty"`
	MaxBatches   int64 `json:"max_batches,omitempty"`
	MaxWebhooks  int64 `json:"max_webhooks,omitempty"`
}

// Role is a named list of grants, with limits on what each of its principals owns.
type Role struct {
	Name   string  `json:"name"`
	Grants []Grant `json:"grants"`
	RoleLimits
	// BuiltIn reports that the role is part of the binary and never changes.
	BuiltIn bool `json:"built_in,omitempty"`
	// By is the principal that set it last, At is when.
	By Principal `json:"by,omitempty"`
	At Moment    `json:"set,omitzero"`
	// ETag is the version of its grants and limits; "" for a built-in role. Pass it to client.IfMatch, or in the header
	// If-Match, to change that version only.
	ETag string `json:"etag,omitempty"`
}

// AccessToken is a token as the cluster knows it.
type AccessToken struct {
	ID string `json:"id"`
	// Roles are limited to the patterns in Tenants and Queues, if any. WorkerPrefix begins the ids of workers that it
	// may register.
	Roles        []string `json:"roles"`
	Tenants      []string `json:"tenants,omitempty"`
	Queues       []string `json:"queues,omitempty"`
	WorkerPrefix string   `json:"worker_prefix,omitempty"`
	// Expires is when the token expires. Its row is kept until then.
	Expires Date      `json:"expires_ms"`
	By      Principal `json:"by,omitempty"`
	// Parent is the principal that opened a browser session, for the session's token. The token has that principal's
	// current rights and ends with it.
	Parent  Principal `json:"parent,omitempty"`
	Created Moment    `json:"created"`
	// Revoked is when the token was revoked; the zero moment if it was not.
	Revoked Moment `json:"revoked,omitzero"`
}

// Block rejects the client certificates of a role and a name.
type Block struct {
	Role string    `json:"role"`
	Name string    `json:"name"`
	By   Principal `json:"by,omitempty"`
	At   Moment    `json:"blocked"`
}

// Issuer is an identity provider whose signed tokens are exchanged for access tokens: OpenID
// Connect.
type Issuer struct {
	// URL is the exact issuer named by its tokens; Audience is the audience that they must have.
	URL      string `json:"url"`
	Audience string `json:"audience"`
	// CA has the certificates (PEM) of its web server's authorities; the default is the system's.
	CA string `json:"ca,omitempty"`
	// Maps give a token the role of the first entry that matches.
	Maps []ClaimRole `json:"maps"`
	// By is the principal that set it last, At is when.
	By Principal `json:"by,omitempty"`
	At Moment    `json:"set,omitzero"`
	// ETag is the version of its settings. Pass it to client.IfMatch, or in the header If-Match, to change that version
	// only.
	ETag string `json:"etag,omitempty"`
}

// ClaimRole gives a role to tokens with a claim that has this value, alone or among others; a Value that ends in "*"
// matches by prefix. Claim is a name, or the path of a claim inside others, such as realm_access.roles.
type ClaimRole struct {
	Claim string `json:"claim"`
	Value string `json:"value"`
	Role  string `json:"role"`
}

// Fits reports whether a claim's value matches.
func (m ClaimRole) Fits(value string) bool {
	begin, open := strings.CutSuffix(m.Value, "*")
	return value == m.Value || open && strings.HasPrefix(value, begin)
}

// String writes the map as CLAIM=VALUE:ROLE.
func (m ClaimRole) String() string { return m.Claim + "=" + m.Value + ":" + m.Role }

// Identity describes a caller and its rights: the grants, limited to the patterns of tenants and queues, if any.
type Identity struct {
	Principal Principal `json:"principal"`
	Grants    []Grant   `json:"grants"`
	Tenants   []string  `json:"tenants,omitempty"`
	Queues    []string  `json:"queues,omitempty"`
	// By is the creator of the caller's token: oidc:ISSUER/SUBJECT if it was exchanged for an identity token.
	By Principal `json:"by,omitempty"`
}

// Principal identifies a caller: token:ID, cert:ROLE/NAME, session:ID/PARENT for a browser session of one of these,
// local, anonymous, or node:ID for actions of a leader by itself. In the log, the empty principal means the leader of
// the entry.
type Principal string

// Principals without a name of their own.
const (
	// Anonymous called without a credential.
	Anonymous Principal = "anonymous"
	// Local called through the socket in the data directory, as the account that the node runs as.
	Local Principal = "local"
)

const (
	tokenPrefix   = "token:"
	certPrefix    = "cert:"
	nodePrefix    = "node:"
	oidcPrefix    = "oidc:"
	sessionPrefix = "session:"
)

// TokenPrincipal names the holder of a token.
func TokenPrincipal(id string) Principal { return Principal(tokenPrefix + id) }

// CertPrincipal names the holder of a client certificate.
func CertPrincipal(role, name string) Principal { return Principal(certPrefix + role + "/" + name) }

// NodePrincipal names a node that acts on its own behalf.
func NodePrincipal(id NodeID) Principal { return Principal(nodePrefix + string(id)) }

// OIDCPrincipal names the subject of an identity provider: it calls by the token that it got.
func OIDCPrincipal(issuer, subject string) Principal {
	return Principal(oidcPrefix + issuer + "/" + subject)
}

// Token returns the id of the principal's token; ok is false for one that has none.
func (p Principal) Token() (id string, ok bool) { return strings.CutPrefix(string(p), tokenPrefix) }

// Cert returns role and name of the principal's certificate; ok is false for one that has none.
func (p Principal) Cert() (role, name string, ok bool) {
	rest, ok := strings.CutPrefix(string(p), certPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// Node reports whether the principal is a node.
func (p Principal) Node() bool { return strings.HasPrefix(string(p), nodePrefix) }

// SessionPrincipal returns the principal of a browser session, which contains the principal that requested it.
func SessionPrincipal(id string, parent Principal) Principal {
	return Principal(sessionPrefix + id + "/" + string(parent))
}

// Session returns the id of a session and the principal that requested it; ok is false if p is not a session.
func (p Principal) Session() (id string, parent Principal, ok bool) {
	rest, ok := strings.CutPrefix(string(p), sessionPrefix)
	if !ok {
		return "", "", false
	}
	id, of, ok := strings.Cut(rest, "/")
	return id, Principal(of), ok
}

// Owner returns the owner of objects that the principal creates: for a session, its parent.
func (p Principal) Owner() Principal {
	if _, parent, ok := p.Session(); ok {
		return parent
	}
	return p
}
