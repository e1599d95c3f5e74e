package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/transport/web"
)

const (
	// sessionPath is the only path at which a cookie counts.
	sessionPath = consolePath + "/session"
	// sessionCookie keeps a browser session when the page is reloaded. Its prefix makes browsers accept it only from
	// this exact origin, and only over TLS.
	sessionCookie = "__Host-rota-ui"
)

// uiSession is the answer of /ui/session.
type uiSession struct {
	// Token is the session in the cookie, empty without one.
	Token string `json:"token,omitempty"`
	// Cookie reports that the session was stored in a cookie.
	Cookie bool `json:"cookie,omitempty"`
	// Alone reports that browsers reach all nodes through the page's own origin only.
	Alone bool `json:"alone,omitempty"`
}

// serveSession keeps the console's session when the page is reloaded (docs/security.md). POST with a session as bearer
// sets the cookie, POST with only the cookie returns the session, DELETE ends the session and clears the cookie. Only
// pages of the console's own origin may call it.
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request) {
	leave, err := s.receiveFrom(textAddr(r.RemoteAddr))
	if err != nil {
		web.Refuse(w, err, 0)
		return
	}
	defer leave()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPost && r.Method != http.MethodDelete {
		h.Set("Allow", "POST, DELETE")
		web.Refuse(w, rota.Refusef(rota.KindInvalid, "method", "method must be POST or DELETE"),
			http.StatusMethodNotAllowed)
		return
	}
	secure, err := s.sameOrigin(r)
	if err != nil {
		web.Refuse(w, err, http.StatusForbidden)
		return
	}
	text, kept, err := shownSession(r)
	if err != nil {
		web.Refuse(w, err, 0)
		return
	}
	if r.Method == http.MethodDelete {
		s.signOut(w, r, text)
		return
	}
	if text == "" {
		s.answerSession(w, uiSession{})
		return
	}
	_, until, err := s.provenSession(text)
	switch {
	case rota.KindOf(err) == rota.KindUnavailable: // its state is unknown, and so is its end
		web.Refuse(w, err, 0)
	case err != nil && kept:
		dropCookie(w)
		s.answerSession(w, uiSession{}) // it has ended: the page asks its user
	case err != nil:
		web.Refuse(w, err, 0)
	case kept:
		s.answerSession(w, uiSession{Token: text})
	case !secure:
		s.answerSession(w, uiSession{}) // in clear text the session stays in the page's memory
	default:
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: text, Path: "/", Secure: true, HttpOnly: true,
			SameSite: http.SameSiteStrictMode, MaxAge: max(1, int(until-s.today())/1000)})
		s.answerSession(w, uiSession{Cookie: true})
	}
}

func (s *Server) answerSession(w http.ResponseWriter, a uiSession) {
	a.Alone = s.options.Hosts.UI != ""
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the client may be gone
}

func dropCookie(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: -1})
}

// sameOrigin rejects a request that does not come from a page of the console's own origin; secure reports that the page
// came over TLS. A request without an origin does not come from a page.
func (s *Server) sameOrigin(r *http.Request) (secure bool, err error) {
	origins := r.Header.Values("Origin")
	scheme := "http://"
	if s.options.TLS != nil {
		scheme = "https://"
	}
	if len(origins) == 1 && (strings.EqualFold(origins[0], scheme+r.Host) || s.options.Hosts.UI != "" &&
		origins[0] == s.options.Hosts.UI) {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "" || site == "same-origin" {
			return strings.HasPrefix(origins[0], "https://"), nil
		}
	}
	return false, rota.Refusef(rota.KindDenied, "origin",
		"only the console's own page may ask for its session: the Origin is missing or different")
}

// shownSession returns the credential in a request, empty for none, and whether it is the cookie. A bearer credential
// takes precedence.
func shownSession(r *http.Request) (text string, kept bool, err error) {
	given := r.Header.Values(tokenHeader)
	cookies := r.CookiesNamed(sessionCookie)
	switch {
	case len(given) > 1 || len(cookies) > 1:
		return "", false, rota.Refusef(rota.KindUnauthenticated, "credential",
			"the call has two credentials: send only one")
	case len(given) == 1:
		text, err := bearer(given[0])
		return text, false, err
	case len(cookies) == 1:
		return cookies[0].Value, true, nil
	}
	return "", false, nil
}

// provenSession returns the principal of a valid session, and when it ends. No other credential is put into a cookie.
func (s *Server) provenSession(text string) (rota.Principal, rota.Date, error) {
	credential, err := access.ParseCredential(text)
	if err != nil {
		return "", 0, err
	}
	table := s.options.Core.Access()
	if table == nil {
		return "", 0, s.noTable()
	}
	p, err := table.Prove(credential, s.today())
	if err != nil {
		return "", 0, err
	}
	if _, _, ok := p.Session(); !ok {
		return "", 0, rota.Refusef(rota.KindDenied, "session",
			"%s is not a browser session: open one with POST /v1/sessions", p)
	}
	if _, err := table.Rights(p, s.today()); err != nil {
		return "", 0, err
	}
	t, _ := table.Token(credential.ID)
	return p, t.Expires, nil
}

// signOut ends the session in a request, and clears the cookie in any case. A node that cannot check it returns an
// error, as the session lives on.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request, text string) {
	dropCookie(w)
	p, _, err := s.provenSession(text)
	if rota.KindOf(err) == rota.KindUnavailable {
		web.Refuse(w, err, 0)
		return
	}
	if err == nil {
		caller := access.Caller{Actor: p, Via: string(s.options.Self) + "/http",
			Request: requestOf(metadata.MD{requestHeader: r.Header.Values(requestHeader)})}
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), access.CallerKey{}, caller), 10*time.Second)
		defer cancel()
		id, _, _ := p.Session()
		if err := s.options.Core.EndSession(ctx, id); err != nil {
			web.Refuse(w, err, 0)
			return
		}
	}
	s.answerSession(w, uiSession{})
}
