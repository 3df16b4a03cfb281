package hostsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
)

// A URL is the source of --hosts-url. Its methods may not be called together.
type URL struct {
	url    *url.URL
	client *http.Client

	// etag is the ETag of the newest answer; empty: it had none.
	etag string

	// last is the newest answer.
	last []Instance
}

// NewURL makes the source that is read from an address, http or https.
func NewURL(address string) (*URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The error of the parser holds the text, perhaps with a password.
		return nil, errors.New("it is not a URL; write http://host:port/path or https://host/path")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL of a list of hosts; write http://host:port/path or https://host/path", u.Redacted())
	}
	return &URL{url: u, client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone(), Timeout: answerTime}}, nil
}

// String names the source in messages.
func (u *URL) String() string { return "--hosts-url " + u.url.Redacted() }

// Close gives the connections up.
func (u *URL) Close() error {
	u.client.CloseIdleConnections()
	return nil
}

// Ask gets the list. A server that says that nothing has changed since the last answer (304, for
// the ETag of that) gives the last answer once more.
func (u *URL) Ask(ctx context.Context) ([]Instance, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json, application/x-ndjson, text/plain;q=0.5")
	if u.etag != "" {
		req.Header.Set("If-None-Match", u.etag)
	}
	resp, err := u.client.Do(req)
	if err != nil {
		var text *url.Error
		if errors.As(err, &text) {
			// String names the address, so the cause is enough.
			err = text.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && u.etag != "":
		return slices.Clone(u.last), nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("got status %s, want 200 OK and a list of hosts", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("the answer is incomplete: %w", err)
	}
	all, err := decode(text)
	if err != nil {
		return nil, err
	}
	u.etag, u.last = resp.Header.Get("ETag"), all
	return slices.Clone(all), nil
}
