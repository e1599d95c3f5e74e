package rest

import "github.com/rotasched/rota"

// Tokens is a list of tokens by id.
type Tokens struct {
	Tokens     []rota.AccessToken `json:"tokens"`
	NextCursor string             `json:"next_cursor,omitempty"`
}

// TokenSetting makes a token known to the cluster, by the hash of what its holder shows. No node
// ever sees the secret.
type TokenSetting struct {
	// Hash is SHA-256 of rota|token|ID|SECRET, in hex.
	Hash rota.Hex `json:"hash"`
	// Roles are the token's roles, limited to the patterns in Tenants and Queues (no patterns: no limit). WorkerPrefix
	// is the prefix of the ids of workers that it may register.
	Roles        []string `json:"roles"`
	Tenants      []string `json:"tenants,omitempty"`
	Queues       []string `json:"queues,omitempty"`
	WorkerPrefix string   `json:"worker_prefix,omitempty"`
	// ExpiresMs is when it ends by itself, in Unix milliseconds, ExpiresAt the same in RFC 3339:
	// one of them.
	ExpiresMs int64  `json:"expires_ms,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
}

// Roles is a list of roles by name.
type Roles struct {
	Roles      []rota.Role `json:"roles"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

// RoleSetting is what a role grants, and how much each of its principals may own.
type RoleSetting struct {
	Grants []rota.Grant `json:"grants"`
	rota.RoleLimits
}

// Issuers is a list of identity providers by URL.
type Issuers struct {
	Issuers    []rota.Issuer `json:"issuers"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// IssuerSetting is an identity provider whose tokens are taken.
type IssuerSetting struct {
	// URL is the exact issuer named by its tokens; Audience is the audience that they must have.
	URL      string `json:"url"`
	Audience string `json:"audience"`
	// CA has the certificates, in PEM, of the authorities for its web server; without it, the system's certificates
	// apply.
	CA string `json:"ca,omitempty"`
	// Maps determine the role of a token: the role of the first entry that matches it.
	Maps []rota.ClaimRole `json:"maps"`
}

// Blocks is a list of blocks by role and name.
type Blocks struct {
	Blocks     []rota.Block `json:"blocks"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

// Anonymous is what callers without a credential may do.
type Anonymous struct {
	// Roles are those that they have; an empty list lets them do nothing.
	Roles []string `json:"roles"`
}

// Exchange asks for an access token for an identity token.
type Exchange struct {
	// JWT is the identity token, at most 16 KiB.
	JWT string `json:"jwt"`
	// ID is the access token's id, Hash SHA-256 of rota|token|ID|SECRET, in hex.
	ID   string   `json:"id"`
	Hash rota.Hex `json:"hash"`
}

// Session asks for a browser session of the caller.
type Session struct {
	// ID is the session's, Hash SHA-256 of rota|token|ID|SECRET, in hex.
	ID   string   `json:"id"`
	Hash rota.Hex `json:"hash"`
	// Link says that the session is for who opens a link within a minute, and claims it.
	Link bool `json:"link,omitempty"`
}

// SessionClaim opens the link to a session.
type SessionClaim struct {
	// Hash is SHA-256 of rota|token|ID|SECRET with the session's new secret, in hex.
	Hash rota.Hex `json:"hash"`
}

// Done is the answer to a change that has nothing to show.
type Done struct{}
