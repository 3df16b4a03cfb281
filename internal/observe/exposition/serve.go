package exposition

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/paragon-train/paragon/internal/observe/connlimit"
	"github.com/paragon-train/paragon/internal/observe/telemetry"
)

// Limits of a server: strangers may reach its port.
const (
	// maxConns is how many connections may be open at once. One more closes the oldest.
	maxConns = 16

	maxHeader   = 16 << 10
	readTimeout = 5 * time.Second
	// writeTimeout is for a slow reader; an answer has some 20 KB.
	writeTimeout = 10 * time.Second
	idleTimeout  = time.Minute
)

// An Endpoint answers Prometheus's scrapes of one process: GET /metrics.
type Endpoint struct {
	ln     net.Listener
	http   http.Server
	served chan error
}

// Listen serves at addr, a host:port; port 0 is a free one. Each scrape calls whose, which says
// which process this is, and measure, which returns its values; both may be called concurrently.
// Close ends the Endpoint. The error is that of listening.
func Listen(addr string, whose func() Process, measure func() telemetry.Record, logger *slog.Logger) (*Endpoint, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("exposition: metrics of this process: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ContentType)

		// A scraper that is gone needs no answer.
		_ = Write(w, whose(), measure())
	})
	e := &Endpoint{ln: ln, served: make(chan error, 1), http: http.Server{Handler: mux, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}}
	go func() { e.served <- e.http.Serve(connlimit.New(ln, maxConns)) }()
	return e, nil
}

// Addr is the address that the Endpoint listens on.
func (e *Endpoint) Addr() *net.TCPAddr { return e.ln.Addr().(*net.TCPAddr) }

// Close ends the endpoint and its connections.
func (e *Endpoint) Close() error {
	err := e.http.Close()
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
