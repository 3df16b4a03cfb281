package prom

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/observe/exposition"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// Limits of a server: strangers may reach its port.
const (
	// maxScrapes is how many scrapes may go on at once. The next one gets 503 Service Unavailable.
	maxScrapes = 4

	// maxConns is how many connections may be open at once. The next ones wait.
	maxConns = 64

	maxHeader   = 16 << 10
	readTimeout = 5 * time.Second
	// writeTimeout is for a slow reader of a large answer.
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	// askTimeout bounds the wait for the scheduler. It does not answer while it cannot write
	// its journal.
	askTimeout = 5 * time.Second
)

// Config says what a Server shows.
type Config struct {
	// Listen is host:port. With port 0 the system chooses one.
	Listen string

	// Ask asks the scheduler for the newest values of all nodes.
	Ask func(ctx context.Context) (*control.Telemetry, error)

	// Restarts is how often the job was started again.
	Restarts int

	Logger *slog.Logger // slog.Default()
}

// A Server answers Prometheus.
type Server struct {
	cfg  Config
	ln   net.Listener
	http http.Server

	// scrapes has one for each scrape that goes on.
	scrapes chan struct{}

	served chan error
}

// Listen begins to serve at the address of cfg.
func Listen(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := CheckAddress(cfg.Listen); err != nil {
		return nil, fmt.Errorf("prom: %w", err)
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("prom: listen for scrapes: %w", err)
	}
	s := &Server{cfg: cfg, ln: ln, scrapes: make(chan struct{}, maxScrapes), served: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /sd", s.discovery)
	mux.HandleFunc("GET /sd/processes", s.processes)
	s.http = http.Server{Handler: mux, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug)}
	go func() { s.served <- s.http.Serve(limit(ln, maxConns)) }()
	return s, nil
}

// CheckAddress says what is wrong with the text of an address to listen on.
func CheckAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("address %q: want host:port, such as 127.0.0.1:9464 or :9464 for all interfaces", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %q: port %q: want 0 to 65535, 0 for one that the system chooses", text, port)
	}
	return nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// IsPrivate reports whether only this machine reaches the server.
func (s *Server) IsPrivate() bool {
	a, ok := s.ln.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// metrics answers a scrape.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	select {
	case s.scrapes <- struct{}{}:
		defer func() { <-s.scrapes }()
	default:
		http.Error(w, fmt.Sprintf("%d scrapes are in progress already", maxScrapes), http.StatusServiceUnavailable)
		return
	}
	t, ok := s.ask(w, r)
	if !ok {
		return
	}
	c := collector{t: t, restarts: s.cfg.Restarts}
	c.collect()

	// A scrape may ask for some families alone.
	names := r.URL.Query()["name[]"]
	if len(names) == 0 {
		names = c.text.Names()
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", exposition.ContentType)
	if err := send(w, r, func(w io.Writer) error { return c.text.Write(w, slices.Compact(names)) }); err != nil {
		s.cfg.Logger.Warn("prom: a scrape has broken off: " + err.Error())
	}
}

// send writes an answer, compressed where the client takes gzip.
func send(w http.ResponseWriter, r *http.Request, write func(io.Writer) error) error {
	w.Header().Set("Vary", "Accept-Encoding")
	if !takesGzip(r) {
		return write(w)
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	return errors.Join(write(z), z.Close())
}

// gzipWeight is the word of Accept-Encoding for gzip, with a weight above 0 where it has one.
var gzipWeight = regexp.MustCompile(`(?i)(^|,)\s*gzip\s*(;\s*q=(1|0?\.0*[1-9])[0-9.]*\s*)?(,|$)`)

// takesGzip reports whether a client takes an answer that is packed by gzip: one with a weight of 0
// does not.
func takesGzip(r *http.Request) bool {
	return gzipWeight.MatchString(strings.Join(r.Header.Values("Accept-Encoding"), ","))
}

// ask asks the scheduler. If it does not answer the request gets 503 Service Unavailable: to
// Prometheus the job is down for now.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) (*control.Telemetry, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	t, err := s.cfg.Ask(ctx)
	if err != nil {
		http.Error(w, "the scheduler does not answer: "+err.Error(), http.StatusServiceUnavailable)
		return nil, false
	}
	return t, true
}

// A targetGroup is what http_sd_configs reads.
type targetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// discovery names this server's own address as the one target, as whoever asks reaches it.
func (s *Server) discovery(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ask(w, r)
	if !ok {
		return
	}
	target := r.Host
	if _, _, err := net.SplitHostPort(target); err != nil {
		target = s.Addr()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode([]targetGroup{{[]string{target}, map[string]string{"paragon_job": t.Job}}})
}

// processes names the endpoints of workers and servers that have one of their own. What they serve
// is in the job's endpoint, too, so a Prometheus reads the one or the others.
func (s *Server) processes(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ask(w, r)
	if !ok {
		return
	}
	groups := []targetGroup{}
	port := slices.Index(t.Columns, control.Value{Metric: telemetry.MetricsPort.String()})
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if port < 0 || n.State == control.NodeGone || n.AgeMillis < 0 || !(n.Values[port] > 0 && n.Values[port] <= math.MaxUint16) {
			continue
		}
		groups = append(groups, targetGroup{[]string{net.JoinHostPort(n.Host, strconv.Itoa(int(n.Values[port])))}, map[string]string{"paragon_job": t.Job, "paragon_role": n.Role}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(groups)
}

// limit makes a listener hold back connections while so many are open.
func limit(ln net.Listener, most int) net.Listener {
	return &limited{Listener: ln, open: make(chan struct{}, most), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	open   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return &limitedConn{Conn: c, of: l}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A limitedConn makes way for the next one when it is closed.
type limitedConn struct {
	net.Conn
	of   *limited
	once sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.of.open })
	return err
}
