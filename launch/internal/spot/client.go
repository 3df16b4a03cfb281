package spot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer; the longest of those that are asked for has some KB.
const maxAnswer = 64 << 10

// errNone says that the service has nothing at a path: no event.
var errNone = errors.New("not found")

// A client asks a metadata service.
type client struct {
	url  string
	http *http.Client
}

func newClient(cfg Config) *client {
	transport := cfg.transport
	if transport == nil {
		// No proxy: the address means this machine only here.
		transport = &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConns: 2, IdleConnTimeout: time.Minute}
	}
	return &client{strings.TrimSuffix(cmp.Or(cfg.URL, linkLocal), "/"), &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A statusError is an answer with another status than 200 and 404.
type statusError struct {
	path   string
	status int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d %s", e.path, e.status, http.StatusText(e.status))
}

// ask sends a request with a header, NAME: VALUE.
func (c *client) ask(ctx context.Context, method, path, name, value string) (string, http.Header, error) {
	q, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
	if err != nil {
		return "", nil, err
	}
	q.Header.Set(name, value)
	a, err := c.http.Do(q)
	if err != nil {
		return "", nil, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("%s: %w", path, err)
	case len(body) > maxAnswer:
		return "", nil, fmt.Errorf("%s: an answer of more than %d bytes", path, maxAnswer)
	case a.StatusCode == http.StatusNotFound:
		return "", a.Header, fmt.Errorf("%s: %w", path, errNone)
	case a.StatusCode != http.StatusOK:
		return "", a.Header, &statusError{path, a.StatusCode}
	}
	return string(body), a.Header, nil
}
