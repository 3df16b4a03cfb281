package page

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/connlimit"
)

// tokenName is the token's name in the query of an address.
const tokenName = "token"

// headers go with each answer. What the page is made of comes from this server alone, no code or
// style stands in its HTML, and no other page shows it or learns of it.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// maxURL bounds the bytes of a request's path and query.
const maxURL = 4 << 10

// ServeHTTP lets through only what a browser with a session asks for this page itself.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	refuse := func(code int, text string) {
		w.Header().Set("Connection", "close") // strangers keep no connection
		http.Error(w, text, code)
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(http.StatusMethodNotAllowed, "the page is read-only: want GET or HEAD")
	case r.ContentLength != 0 || len(r.RequestURI) > maxURL:
		refuse(http.StatusBadRequest, "want no body, and a short address")
	case !s.knowsHost(r.Host):
		refuse(http.StatusMisdirectedRequest, "the Host header is not a name of this server; open the printed link, or the same with localhost and your tunnel's port")
	case !s.ownOrigin(r):
		refuse(http.StatusForbidden, "another site made this request; type or paste the address into the address bar")
	case r.URL.Path == "/" && r.URL.Query().Has(tokenName):
		s.enter(w, r, refuse)
	case !s.inSession(r):
		refuse(http.StatusUnauthorized, "no session: open the printed link, which works once; for a job, launch ctl page prints another link")
	default:
		connlimit.MarkSession(r.Context())
		s.mux.ServeHTTP(w, r)
	}
}

// enter takes the token of an address, and sends the browser to the page without it.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, refuse func(int, string)) {
	query := r.URL.Query()
	// A program that only looks ahead must not use the token up.
	if r.Method != http.MethodGet || r.Header.Get("Sec-Purpose") != "" || len(query) != 1 || len(query[tokenName]) != 1 {
		refuse(http.StatusBadRequest, "want /?token=TOKEN from a browser's address bar")
		return
	}
	secret, ok := s.guard.open(query.Get(tokenName))
	if !ok {
		// The browser's user has come back to the address.
		if s.inSession(r) {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		refuse(http.StatusUnauthorized, "this link is wrong, or was used already; for a job, launch ctl page prints another link")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.tls})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// inSession reports whether a request has the cookie of a session.
func (s *Server) inSession(r *http.Request) bool {
	cookies := r.CookiesNamed(s.cookie)
	return len(cookies) == 1 && s.guard.has(cookies[0].Value)
}

// knowsHost reports whether a request was sent to a name of this server. Any other name may be one
// that a hostile page's owner lets point here (DNS rebinding). Numeric addresses are no names:
// nobody else decides where they point. The port is any: a tunnel's end has another one.
func (s *Server) knowsHost(host string) bool {
	name, ok := hostOf(host)
	if !ok {
		return false
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		return ip.IsLoopback() || !s.private
	}
	return slices.ContainsFunc(s.names, func(own string) bool { return strings.EqualFold(own, name) })
}

// hostOf is the name in a Host header.
func hostOf(host string) (name string, ok bool) {
	u, err := url.Parse("http://" + host + "/")
	if err != nil || u.Host != host || u.User != nil || u.Path != "/" {
		return "", false
	}
	return strings.TrimSuffix(u.Hostname(), "."), u.Hostname() != ""
}

// ownOrigin reports whether the page itself, or the browser's user, makes a request. Browsers name
// the origin of others, and programs that are no browsers name none.
func (s *Server) ownOrigin(r *http.Request) bool {
	scheme := "http://"
	if s.tls {
		scheme = "https://"
	}
	for _, origin := range r.Header["Origin"] {
		if !strings.EqualFold(origin, scheme+r.Host) {
			return false
		}
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	return true
}

// isLoopback reports whether only this machine reaches an address.
func isLoopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}
