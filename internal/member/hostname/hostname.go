// Package hostname reads what people call a host of a job: [user@]host[:port]. Hosts files, commands
// of launch ctl and the scheduler's wanted state name hosts so.
package hostname

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// A Name is a host as it was spelled. Capital letters, a dot at its end and the different ways to
// write an IPv6 address make no difference: compare names by their Key.
type Name struct {
	// User is the login name; empty: the ssh configuration says it.
	User string

	Host string // host name or address, without brackets

	// Port is that of sshd; 0: the ssh configuration says it.
	Port int
}

// String is the host as Parse reads it.
func (n Name) String() string {
	s := n.Host
	if strings.Contains(s, ":") && n.Port != 0 {
		s = "[" + s + "]"
	}
	if n.User != "" {
		s = n.User + "@" + s
	}
	if n.Port != 0 {
		s += ":" + strconv.Itoa(n.Port)
	}
	return s
}

// Key is the same for all spellings of one login.
func (n Name) Key() Name {
	if a, err := netip.ParseAddr(n.Host); err == nil {
		n.Host = a.String()
	} else {
		n.Host = strings.ToLower(strings.TrimSuffix(n.Host, "."))
	}
	return n
}

// Parse reads [user@]host[:port].
func Parse(s string) (Name, error) {
	var n Name
	rest := s
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		n.User, rest = rest[:i], rest[i+1:]
		if !isName(n.User) {
			return Name{}, fmt.Errorf("user %q of %q is not a user name; write user@host", n.User, s)
		}
	}
	n.Host = rest
	switch {
	case strings.HasPrefix(rest, "["):
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return Name{}, fmt.Errorf("%q has no closing bracket; write [address]:port", s)
		}
		n.Host, rest = rest[1:end], rest[end+1:]
		if rest != "" && rest[0] != ':' {
			return Name{}, fmt.Errorf("%q: %q follows the bracket; write [address]:port", s, rest)
		}
		if err := n.setPort(s, strings.TrimPrefix(rest, ":"), rest != ""); err != nil {
			return Name{}, err
		}
	case strings.Count(rest, ":") == 1:
		name, port, _ := strings.Cut(rest, ":")
		n.Host = name
		if err := n.setPort(s, port, true); err != nil {
			return Name{}, err
		}
	}

	// Only a whole IPv6 address may hold colons.
	if strings.Contains(n.Host, ":") {
		addr, zone, zoned := strings.Cut(n.Host, "%")
		if net.ParseIP(addr) == nil {
			return Name{}, fmt.Errorf("%q is neither host:port nor an IPv6 address; write host:port or [address]:port", s)
		}
		if zoned && !isName(zone) {
			return Name{}, fmt.Errorf("zone %q of %q is not the name of an interface; write address%%interface", zone, s)
		}
	} else if !isName(n.Host) {
		return Name{}, fmt.Errorf("%q is not a host name; write host, host:port or user@host", s)
	}
	return n, nil
}

func (n *Name) setPort(s, port string, given bool) error {
	if !given {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("port %q of %q is not a port; write host:port with a port from 1 to 65535", port, s)
	}
	n.Port = int(number)
	return nil
}

// isName reports whether s can stand as an argument of ssh: no leading dash (ssh would read an
// option), no white space, no byte that a shell would read.
func isName(s string) bool {
	if s == "" || s[0] == '-' {
		return false
	}
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_', c == '%':
		case c >= 0x80 && (unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsDigit(c)): // an internationalised name
		default:
			// The rest has invisible characters, or bytes that are not UTF-8.
			return false
		}
	}
	return true
}
