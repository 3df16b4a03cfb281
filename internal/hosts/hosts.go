// Package hosts reads hosts files and says which process of a job runs on which host.
//
// A hosts file has one host a line, in the order that gives the ranks:
//
//	# comments and blank lines are skipped
//	d1
//	me@10.0.0.7:2222
//	[fe80::1%eth0]:22
//	d2 slots=4          # d2 takes four workers
//
// It is UTF-8, whatever editor wrote it: byte order marks, and line ends of Windows and of old Macs, say nothing. Nor do small and capital
// letters in names, a dot at their end, or the ways to write an IPv6 address.
//
// Place fills it: workers take the slots in the file's order (a host without slots= has one), so that worker i is on host
// i mod H when no line has slots. Servers are spread evenly, server i on host i mod H, whatever the slots.
package hosts

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// A Host is one line of a hosts file.
type Host struct {
	User  string // who to log in as; empty: as the ssh configuration says
	Name  string // host name or address, without brackets
	Port  int    // of sshd; 0: as the ssh configuration says
	Slots int    // workers it takes; 0: no slots= was given
	Line  int    // where it stands in the file
}

// Local is the launching machine, for jobs without a hosts file.
var Local = Host{Name: "localhost"}

// String is the host as a line of a hosts file names it.
func (h Host) String() string {
	s := h.Name
	if strings.Contains(s, ":") && h.Port != 0 {
		s = "[" + s + "]"
	}
	if h.User != "" {
		s = h.User + "@" + s
	}
	if h.Port != 0 {
		s += ":" + strconv.Itoa(h.Port)
	}
	return s
}

// Same reports whether two lines name the same login, so that one connection serves both.
func (h Host) Same(o Host) bool {
	return h.User == o.User && h.Port == o.Port && plain(h.Name) == plain(o.Name)
}

// plain is the one of a name's forms by which it is known to be the same.
func plain(name string) string {
	if a, err := netip.ParseAddr(name); err == nil {
		return a.String()
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// Read reads the hosts file at path.
func Read(path string) ([]Host, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("launch: read hosts file: %w", err)
	}
	defer f.Close()
	return Parse(f, path)
}

// maxFile bounds a hosts file: 1 MiB is some 50,000 hosts.
const maxFile = 1 << 20

// Parse reads a hosts file from r; path is its name in errors.
func Parse(r io.Reader, path string) ([]Host, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("launch: read hosts file %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("launch: hosts file %s: has more than %d bytes; is it a hosts file?", path, maxFile)
	}
	if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("launch: hosts file %s is UTF-16; save it as UTF-8", path)
	}
	var all []Host
	for i, line := range strings.Split(lineEnds.Replace(string(b)), "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimLeft(line, byteOrderMark) // one stands inside the file where files were put together
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		h, err := ParseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("launch: %s line %d: %w", path, i+1, err)
		}
		h.Line = i + 1
		all = append(all, h)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("launch: hosts file %s names no host; write one a line: host, host:port or host slots=N", path)
	}
	return all, nil
}

// byteOrderMark is what some editors begin a file with.
const byteOrderMark = "\ufeff"

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// MaxSlots bounds the workers of one host: no job has more nodes.
const MaxSlots = 5000

// ParseLine reads the words of one line: [user@]host[:port] [slots=N].
func ParseLine(fields []string) (Host, error) {
	h, err := ParseHost(fields[0])
	if err != nil {
		return Host{}, err
	}
	for _, f := range fields[1:] {
		value, ok := strings.CutPrefix(f, "slots=")
		if !ok {
			return Host{}, fmt.Errorf("%q after the host is unknown; only slots=N may follow", f)
		}
		if h.Slots != 0 {
			return Host{}, fmt.Errorf("slots= is given twice for %s", h.Name)
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > MaxSlots {
			return Host{}, fmt.Errorf("slots=%s is no number of workers; write slots=N with N from 1 to %d", value, MaxSlots)
		}
		h.Slots = n
	}
	return h, nil
}

// ParseHost reads [user@]host[:port].
func ParseHost(s string) (Host, error) {
	var h Host
	rest := s
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		h.User, rest = rest[:i], rest[i+1:]
		if !isName(h.User) {
			return Host{}, fmt.Errorf("user %q of %q is no user name; write user@host", h.User, s)
		}
	}
	h.Name = rest
	switch {
	case strings.HasPrefix(rest, "["):
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return Host{}, fmt.Errorf("%q has no closing bracket; write [address]:port", s)
		}
		h.Name, rest = rest[1:end], rest[end+1:]
		if rest != "" && rest[0] != ':' {
			return Host{}, fmt.Errorf("%q: %q follows the bracket; write [address]:port", s, rest)
		}
		if err := h.setPort(s, strings.TrimPrefix(rest, ":"), rest != ""); err != nil {
			return Host{}, err
		}
	case strings.Count(rest, ":") == 1:
		name, port, _ := strings.Cut(rest, ":")
		h.Name = name
		if err := h.setPort(s, port, true); err != nil {
			return Host{}, err
		}
	}
	if strings.Contains(h.Name, ":") { // only a whole IPv6 address may hold colons
		addr, zone, zoned := strings.Cut(h.Name, "%")
		if net.ParseIP(addr) == nil {
			return Host{}, fmt.Errorf("%q is neither host:port nor an IPv6 address; write host:port or [address]:port", s)
		}
		if zoned && !isName(zone) {
			return Host{}, fmt.Errorf("zone %q of %q is no interface's name; write address%%interface", zone, s)
		}
	} else if !isName(h.Name) {
		return Host{}, fmt.Errorf("%q is no host name; write host, host:port or user@host", s)
	}
	return h, nil
}

func (h *Host) setPort(s, port string, given bool) error {
	if !given {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("port %q of %q is no port; write host:port with a port from 1 to 65535", port, s)
	}
	h.Port = int(n)
	return nil
}

// isName reports whether s can stand as an argument of ssh: no leading dash (ssh would read an option), no white space, no
// byte that a shell would read.
func isName(s string) bool {
	if s == "" || s[0] == '-' {
		return false
	}
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_', c == '%':
		case c >= 0x80 && (unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsDigit(c)): // an internationalised name
		default: // also what nobody sees, and bytes that are no UTF-8
			return false
		}
	}
	return true
}
