package page

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
)

//go:embed assets
var embedded embed.FS

// Config says what a Server shows, and to whom.
type Config struct {
	Listen string // host:port; with port 0 the system chooses one
	Feed   Feed
	// Assets has index.html and what it needs; nil: what is in the program.
	Assets fs.FS
}

// A Server shows a Feed to browsers.
type Server struct {
	cfg    Config
	ln     net.Listener
	http   http.Server
	hub    *hub
	served chan error
}

// Listen begins to serve at the address of cfg.
func Listen(cfg Config) (*Server, error) {
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
	s := &Server{cfg: cfg, ln: ln, hub: newHub(cfg.Feed), served: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/state", s.state)
	mux.HandleFunc("GET /api/page", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(cfg.Feed.Page()) })
	for path, f := range cfg.Feed.Routes() {
		mux.HandleFunc("GET "+path, f)
	}
	files := http.FileServerFS(cfg.Assets)
	mux.Handle("GET /assets/", http.StripPrefix("/assets", files))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, cfg.Assets, "index.html") })
	s.http = http.Server{Handler: mux}
	go func() { s.served <- s.http.Serve(ln) }()
	return s, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close ends the server and its connections.
func (s *Server) Close() error {
	s.hub.close()
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
