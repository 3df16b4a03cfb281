package page

import (
	"context"
	"crypto/tls"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/paragon-train/paragon/internal/observe/connlimit"
)

//go:embed assets
var embedded embed.FS

// Limits of a server: strangers may reach its port.
const (
	maxConns  = 128
	maxHeader = 16 << 10

	// readTimeout bounds the head of a request. There is no body.
	readTimeout = 5 * time.Second

	idleTimeout = 2 * time.Minute
)

// Config says what a Server shows, and to whom.
type Config struct {
	// Listen is host:port. With port 0 the system chooses one.
	Listen string

	Feed Feed

	// Key makes and checks tokens (see NewKey).
	Key Key

	// Certificate is for TLS; nil: plain HTTP, which only a loopback address may have.
	Certificate *tls.Certificate
	// Assets has index.html and the files that it needs; nil: those embedded in the program.
	Assets fs.FS

	// Logger is slog.Default() if it is nil. Errors of connections are logged as DEBUG.
	Logger *slog.Logger
}

// ErrPublic is in the chain of Listen's error if Config has no Certificate and other machines can
// reach the address.
var ErrPublic = errors.New("other machines can reach this address, so the page needs a TLS certificate")

// A Server shows a Feed to browsers. It only reads. It answers a request if
//
//   - it is a GET or HEAD without a body, its Host is a name of this server, and no other site made
//     it;
//   - it has the cookie of a session, which a browser gets once for each token.
//
// Connections, streams, sessions, headers and times are bounded.
type Server struct {
	cfg Config
	tls bool

	// private says that only this machine reaches the address.
	private bool

	// names are the host names under which browsers may ask for the page.
	names []string

	// cookie is the name of the cookie. Browsers do not tell cookies apart by port, so it has the
	// port.
	cookie string

	ln    net.Listener
	http  http.Server
	mux   *http.ServeMux
	guard *guard
	hub   *hub

	// streams holds a token for each stream that is open, and bounds their number.
	streams chan struct{}

	served chan error
}

// Listen starts a Server at the address of cfg. Close stops it. The error wraps ErrPublic, or is
// that of a wrong key or of listening.
func Listen(cfg Config) (*Server, error) {
	if len(cfg.Key) != keyBytes {
		return nil, fmt.Errorf("page: got a key of %d bytes, want %d", len(cfg.Key), keyBytes)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Assets == nil {
		var err error
		if cfg.Assets, err = fs.Sub(embedded, "assets"); err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	s := &Server{cfg: cfg, tls: cfg.Certificate != nil, private: isLoopback(ln.Addr()), ln: connlimit.New(ln, maxConns), guard: newGuard(cfg.Key), hub: newHub(cfg.Feed),
		mux: http.NewServeMux(), streams: make(chan struct{}, maxStreams), served: make(chan error, 1)}
	if !s.private && !s.tls {
		ln.Close()
		return nil, fmt.Errorf("page: listen at %s: %w", cfg.Listen, ErrPublic)
	}
	s.setNames()
	s.route()
	s.http = http.Server{Handler: s, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, ConnContext: connlimit.WithConn, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug)}
	if s.tls {
		s.http.Protocols = new(http.Protocols)

		// A page needs few connections, and the limits are those of connections.
		s.http.Protocols.SetHTTP1(true)
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cfg.Certificate}, MinVersion: tls.VersionTLS12}
		go func() { s.served <- s.http.ServeTLS(s.ln, "", "") }()
	} else {
		go func() { s.served <- s.http.Serve(s.ln) }()
	}
	return s, nil
}

// setNames finds the names that requests may be for.
func (s *Server) setNames() {
	_, port, _ := net.SplitHostPort(s.ln.Addr().String())
	s.cookie = "paragon-" + port
	s.names = []string{"localhost"}
	if s.tls {
		// Browsers take a cookie of this name only over TLS and from this very host.
		s.cookie = "__Host-" + s.cookie
		if leaf := s.cfg.Certificate.Leaf; leaf != nil {
			s.names = append(s.names, leaf.DNSNames...)
		}
	}
	if host, _, err := net.SplitHostPort(s.cfg.Listen); err == nil && !s.private {
		s.names = append(s.names, host)
		if own, err := os.Hostname(); err == nil {
			s.names = append(s.names, own)
		}
	}
}

func (s *Server) route() {
	s.mux.HandleFunc("GET /api/events", s.events)
	s.mux.HandleFunc("GET /api/state", s.state)
	s.mux.HandleFunc("GET /api/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.cfg.Feed.Page())
	})
	for path, f := range s.cfg.Feed.Routes() {
		s.mux.HandleFunc("GET "+path, f)
	}
	s.mux.Handle("GET /assets/", http.StripPrefix("/assets", http.FileServerFS(files{s.cfg.Assets})))
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, s.cfg.Assets, "index.html") })
}

// files is a folder without lists of what is in it.
type files struct{ fs.FS }

func (f files) Open(name string) (fs.File, error) {
	x, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := x.Stat(); err != nil || !info.Mode().IsRegular() {
		x.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return x, nil
}

// URL is the address of the page, without a token.
func (s *Server) URL() string {
	scheme := "http"
	if s.tls {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(s.ln.Addr().String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if own, err := os.Hostname(); err == nil {
			host = own
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// farewell bounds the last Poll and the time to send its message to the browsers.
const farewell = time.Second

// Close polls once more if a page is open, sends the result, for at most farewell, and closes the
// server and its connections.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	s.hub.last(ctx)

	// All are free once the last stream has ended.
	for free := 0; free < maxStreams && ctx.Err() == nil; free++ {
		select {
		case s.streams <- struct{}{}:
		case <-ctx.Done():
		}
	}
	s.hub.close()
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
