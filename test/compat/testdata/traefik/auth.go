// Package auth replaces the package of the same path, whose fork the registry does not serve: it refuses every request.
package auth

import "net/http"

// CheckSecret accepts no password.
func CheckSecret(_, _ string) bool { return false }

// DigestAuthParams finds no parameters.
func DigestAuthParams(string) map[string]string { return nil }

// BasicAuth refuses every request.
type BasicAuth struct {
	Realm   string
	Secrets func(user, realm string) string
}

// RequireAuth refuses a request.
func (*BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuth refuses every request.
type DigestAuth struct{}

// NewDigestAuthenticator returns a DigestAuth.
func NewDigestAuthenticator(string, func(user, realm string) string) *DigestAuth {
	return &DigestAuth{}
}

// CheckAuth finds no user.
func (*DigestAuth) CheckAuth(*http.Request) (user string, info *string) { return "", nil }

// RequireAuth refuses a request.
func (*DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// RequireAuthStale refuses a request.
func (*DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) { refuse(w) }

func refuse(w http.ResponseWriter) { http.Error(w, "not part of this build", http.StatusUnauthorized) }
