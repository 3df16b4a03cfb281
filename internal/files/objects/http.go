package objects

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// An HTTPConfig says how a web server is asked.
type HTTPConfig struct {
	// Client sends the requests; nil means one of the store's own. Its redirects are not used.
	Client *http.Client
	Retry  RetryConfig
}

// wholeLimit is the size of objects that are read whole from a server without ranges.
const wholeLimit = 4 << 20

// NewHTTP makes a Store of the files below a URL on a web server. A query and a user in the URL go
// with every request. It has no lists.
//
// An object's version is its ETag, or else its time of modification, and each read asks for that
// version. A server that does not know ranges serves objects up to 4 MiB; a larger one is an error.
func NewHTTP(base *url.URL, cfg HTTPConfig) Store {
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	w := &webServer{base: *base}
	if client.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 128
		client.Transport, w.transport = transport, transport
	}
	// Redirects are followed here, for errors that do not tell what may be secret in a URL.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.client = &client
	return NewRemote(w, cfg.Retry)
}

// A webServer is the Backend of http and https.
type webServer struct {
	base   url.URL
	client *http.Client

	// transport belongs to this store; nil: it belongs to the client.
	transport *http.Transport
}

func (w *webServer) URL() string { return redacted(&w.base) }

func (w *webServer) Page(context.Context, string, string) ([]Info, string, error) {
	return nil, "", Permanent(fmt.Errorf("a web server has no lists: name each file, such as https://host/data-{000..031}.tar (%w)", errors.ErrUnsupported))
}

// maxRedirects bounds the redirects that are followed.
const maxRedirects = 10

// do sends a GET of some bytes and follows redirects. The caller closes the body.
func (w *webServer) do(ctx context.Context, object Info, off, length int64) (*http.Response, error) {
	if !fs.ValidPath(object.Name) || object.Name == "." {
		return nil, fmt.Errorf("%w: got name %q, want one such as a/b.jpg", fs.ErrNotExist, object.Name)
	}
	u := w.base
	u.Path, u.RawPath = path.Join("/", w.base.Path, object.Name), ""

	// S3 reads a + in a path as a space.
	u.RawPath = strings.ReplaceAll(u.EscapedPath(), "+", "%2B")
	for range maxRedirects {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, Permanent(withoutURL(err))
		}
		req.Header.Set("Accept-Encoding", "identity")
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+length-1))
		switch v := object.Version; {
		case strings.HasPrefix(v, `"`):
			req.Header.Set("If-Match", v)
		case v != "" && !strings.HasPrefix(v, "W/"):
			req.Header.Set("If-Unmodified-Since", v)
		}
		resp, err := w.client.Do(req)
		if err != nil {
			if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted || errors.Is(err, http.ErrSchemeMismatch) {
				return nil, Permanent(withoutURL(err))
			}
			return nil, withoutURL(err)
		}
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return resp, nil
		}
		resp.Body.Close()
		to, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			return nil, Permanent(fmt.Errorf("got status %s to an address that is no URL", resp.Status))
		}
		if u.Scheme == "https" && to.Scheme == "http" {
			return nil, Permanent(fmt.Errorf("got status %s to %s: from https:// to http:// is not followed", resp.Status, redacted(to)))
		}
		if to.Scheme == u.Scheme && to.Host == u.Host {
			to.User = u.User
		}
		u = *to
	}
	return nil, Permanent(fmt.Errorf("got more than %d redirects", maxRedirects))
}

// withoutURL takes the URL off a client's error: its query may be secret.
func withoutURL(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// versionOf is the version of an object by the header of an answer.
func versionOf(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" {
		return tag
	}
	return h.Get("Last-Modified")
}

// refused is the error of an answer without the bytes that were asked for.
func refused(resp *http.Response) error {
	err := fmt.Errorf("got status %s", resp.Status)
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusProxyAuthRequired:
		return fmt.Errorf("%w: %w", fs.ErrPermission, err)
	case code == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", ErrChanged, err)
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500 && code != http.StatusNotImplemented:
		return RetryAfter(err, retryAfter(resp.Header))
	}
	return Permanent(err)
}

// retryAfter is the wait that a server asks for. One that names a time of the day is not needed:
// the waits between attempts grow.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Stat asks for the first byte, and not by HEAD: a signed URL is often good for GET alone, and the
// answer says whether the server knows ranges.
func (w *webServer) Stat(ctx context.Context, name string) (Info, error) {
	resp, err := w.do(ctx, Info{Name: name}, 0, 1)
	if err != nil {
		return Info{}, err
	}
	defer resp.Body.Close()
	info := Info{Name: name, Version: versionOf(resp.Header)}
	switch resp.StatusCode {
	case http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		first, total, ok := contentRange(resp.Header)
		switch empty := resp.StatusCode == http.StatusRequestedRangeNotSatisfiable; {
		case !ok, total < 0, empty != (total == 0), !empty && first != 0:
			return Info{}, Permanent(fmt.Errorf("got status %s and Content-Range %q, want bytes 0-0 of a known length",
				resp.Status, resp.Header.Get("Content-Range")))
		}
		info.Size = total
		if info.Size == 0 {
			// The answer is a page about the error, and so is its version.
			info.Version = ""
		}

		// The connection can be used again only when the body has been read.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		return info, nil
	case http.StatusOK:
		if info.Size = resp.ContentLength; info.Size > wholeLimit || info.Size < 0 {
			return Info{}, errWithoutRanges(info.Size)
		}
		return info, nil
	}
	return Info{}, refused(resp)
}

func errWithoutRanges(size int64) error {
	if size < 0 {
		return Permanent(errors.New("the server does not know ranges (it answers 200, not 206) and does not say how long the object is: download it, or use another server"))
	}
	return Permanent(fmt.Errorf("the server does not know ranges (it answers 200, not 206), and the object has %d bytes, more than the %d that are read whole: download it, or use another server", size, wholeLimit))
}

// contentRange parses "bytes 100-199/200" and "bytes */200". The total is -1 if it is not known.
func contentRange(h http.Header) (first, total int64, ok bool) {
	s, ok := strings.CutPrefix(h.Get("Content-Range"), "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, all, ok := strings.Cut(s, "/")
	if !ok {
		return 0, 0, false
	}
	total = -1
	if all != "*" {
		var err error
		if total, err = strconv.ParseInt(all, 10, 64); err != nil || total < 0 {
			return 0, 0, false
		}
	}
	if span == "*" {
		return 0, total, true
	}
	from, _, _ := strings.Cut(span, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	return first, total, err == nil && first >= 0
}

func (w *webServer) Get(ctx context.Context, object Info, off, length int64) (io.ReadCloser, error) {
	resp, err := w.do(ctx, object, off, length)
	if err != nil {
		return nil, err
	}
	skip, err := w.answer(resp, object, off)
	if err == nil && skip > 0 {
		_, err = io.CopyN(io.Discard, resp.Body, skip)
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}

// answer checks the answer to a read, and returns how many bytes of the body come before those that
// were asked for.
func (w *webServer) answer(resp *http.Response, object Info, off int64) (skip int64, err error) {
	changed := func(size int64) error {
		if v := versionOf(resp.Header); object.Version != "" && v != "" && v != object.Version {
			return fmt.Errorf("%w: it was %s, and is %s", ErrChanged, object.Version, v)
		}
		if size >= 0 && size != object.Size {
			return fmt.Errorf("%w: it had %d bytes, and has %d", ErrChanged, object.Size, size)
		}
		return nil
	}
	switch resp.StatusCode {
	case http.StatusPartialContent:
		first, total, ok := contentRange(resp.Header)
		if !ok || first != off {
			return 0, Permanent(fmt.Errorf("got Content-Range %q, want one from byte %d", resp.Header.Get("Content-Range"), off))
		}
		return 0, changed(total)
	case http.StatusOK:
		if err := changed(resp.ContentLength); err != nil {
			return 0, err
		}
		if off > 0 && object.Size > wholeLimit {
			return 0, errWithoutRanges(object.Size)
		}
		return off, nil
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, fmt.Errorf("%w: it had %d bytes, and the server has none at byte %d", ErrChanged, object.Size, off)
	}
	return 0, refused(resp)
}

func (w *webServer) Close() error {
	if w.transport != nil {
		w.transport.CloseIdleConnections()
	}
	return nil
}

func openHTTP(_ context.Context, u *url.URL) (Store, error) {
	if u.Host == "" {
		return nil, errors.New("got no host")
	}
	return NewHTTP(u, HTTPConfig{}), nil
}
