package rest

import "github.com/rotasched/rota"

// Tokens is a list of tokens by id.
type Tokens struct {
	Tokens     []rota.AccessToken `json:"tokens"`
	NextCursor string             `json:"next_cursor,omitempty"`
}

// TokenSetting creates a token from the hash of its secret.
type TokenSetting struct {
	// Hash is the SHA-256 of rota|token|ID|SECRET, in hex.
	Hash rota.Hex `json:"hash"`
	// Roles are limited to the patterns in Tenants and Queues, if any. WorkerPrefix begins the ids of workers that it
	// may register.
	Roles        []string `json:"roles"`
	Tenants      []string `json:"tenants,omitempty"`
	Queues       []string `json:"queues,omitempty"`
	WorkerPrefix string   `json:"worker_prefix,omitempty"`
	// ExpiresMs is when the token expires. Set it or ExpiresAt.
	ExpiresMs int64  `json:"expires_ms,omitempty"`
	ExpiresAt string `json:"expires_at,omitempty"`
}

// Roles is a list of roles by name.
type Roles struct {
	Roles      []rota.Role `json:"roles"`
	NextCursor string      `json:"next_cursor,omitempty"`
}

// RoleSetting has the grants of a role, and limits on what each of its principals owns.
type RoleSetting struct {
	Grants []rota.Grant `json:"grants"`
	rota.RoleLimits
}

// Issuers is a list of identity providers by URL.
type Issuers struct {
	Issuers    []rota.Issuer `json:"issuers"`
	NextCursor string        `json:"next_cursor,omitempty"`
}

// IssuerSetting is an identity provider whose tokens are accepted.
type IssuerSetting struct {
	// URL is the exact issuer named by its tokens; Audience is the audience that they must have.
	URL      string `json:"url"`
	Audience string `json:"audience"`
	// CA has the certificates (PEM) of its web server's authorities; the default is the system's.
	CA string `json:"ca,omitempty"`
	// Maps give a token the role of the first entry that matches.
	Maps []rota.ClaimRole `json:"maps"`
}

// Blocks is a list of blocks by role and name.
type Blocks struct {
	Blocks     []rota.Block `json:"blocks"`
	NextCursor string       `json:"next_cursor,omitempty"`
}

// Anonymous has the roles of callers without a credential.
type Anonymous struct {
	// Roles are those of such callers; without any they have no rights.
	Roles []string `json:"roles"`
}

// Exchange requests an access token for an identity token.
type Exchange struct {
	// JWT is the identity token, at most 16 KiB.
	JWT string `json:"jwt"`
	// ID is the access token's id, Hash is the SHA-256 of rota|token|ID|SECRET, in hex.
	ID   string   `json:"id"`
	Hash rota.Hex `json:"hash"`
}

// Session requests a browser session of the caller.
type Session struct {
	// ID is the session's id, Hash is the SHA-256 of rota|token|ID|SECRET, in hex.
	ID   string   `json:"id"`
	Hash rota.Hex `json:"hash"`
	// Link means that the session is claimed by opening a link within a minute.
	Link bool `json:"link,omitempty"`
}

// SessionClaim claims a session by its link.
type SessionClaim struct {
	// Hash is the SHA-256 of rota|token|ID|SECRET with the session's new secret, in hex.
	Hash rota.Hex `json:"hash"`
}

// Done is the empty answer to a change.
type Done struct{}
