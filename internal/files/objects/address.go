package objects

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// parse parses a URL. The error leaves out the URL itself, which may have a secret.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		scheme, _, _ := strings.Cut(address, "://")
		return nil, fmt.Errorf("objects: open a URL of scheme %.20q: %w", scheme, err)
	}
	return u, nil
}

// redacted is a URL for messages: without user, password and query, which may be secret.
func redacted(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.ForceQuery, v.Fragment, v.RawFragment = nil, "", false, "", ""
	return v.String()
}

// localPath returns the path that an address names: a path itself, or file:///path.
func localPath(address string) (string, error) {
	scheme, _, ok := strings.Cut(address, "://")
	switch {
	case address == "":
		return "", errors.New("objects: open: got no path")
	case !ok:
		return address, nil
	}
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("objects: open %s: got host %q, want none: %s:///path", redacted(u), u.Host, scheme)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("objects: open %s: got more after the path, want the path alone; write ? as %%3F and # as %%23", redacted(u))
	}

	// The path of file:///C:/data begins with the drive.
	if len(u.Path) > 2 && u.Path[0] == '/' && u.Path[2] == ':' {
		return filepath.FromSlash(u.Path[1:]), nil
	}
	if u.Path == "" {
		return "", fmt.Errorf("objects: open %s: got no path, want file:///path", redacted(u))
	}
	return filepath.FromSlash(u.Path), nil
}
