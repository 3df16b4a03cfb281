// Package hosts reads hosts files and says which process of a job runs on which host.
//
// A hosts file has one host on each line. The order of the lines gives the order of the ranks:
//
//	# comments and blank lines are skipped
//	d1
//	me@10.0.0.7:2222
//	[fe80::1%eth0]:22
//	d2 slots=4 gpus=2 cpus=16
//
// slots= is how many workers may run on the host, gpus= how many of its GPUs a job may use (0:
// none) and cpus= how many of its processors. Launch and tune read the same file and mean the same
// by it.
//
// The file is UTF-8. Byte order marks, line ends of Windows and of old Macs, capital letters in
// names, a dot at the end of a name and the different ways to write an IPv6 address make no
// difference.
//
// Place assigns ranks to hosts: workers take the slots in the order of the file (a host without
// slots= has one), so with no slots= at all worker i runs on host i mod H. Server i runs on host i
// mod H, whatever the slots.
package hosts

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/member/hostname"
)

// A Host is one line of a hosts file.
type Host struct {
	// User is the login name; empty: the ssh configuration says it.
	User string

	Name string // host name or address, without brackets

	// Port is the port of sshd; 0: the ssh configuration says it.
	Port int

	// Slots is the number of workers that may run there; 0: it is not given.
	Slots int

	// GPUs is the number of GPUs that may be used there; 0: it is not given; NoGPUs: none.
	GPUs int

	// CPUs is the number of processors that may be used there; 0: it is not given.
	CPUs int

	// Line is the number of the host's line in the file, from 1.
	Line int
}

// NoGPUs in Host.GPUs means that no GPU of the host may be used, which a hosts file writes as
// gpus=0.
const NoGPUs = -1

// Local is the launching machine, for jobs without a hosts file.
var Local = Host{Name: "localhost"}

// named is what the host is called, without limits.
func (h Host) named() hostname.Name { return hostname.Name{User: h.User, Host: h.Name, Port: h.Port} }

// String is the host as a line of a hosts file names it.
func (h Host) String() string { return h.named().String() }

// Entry is the host as a line of a hosts file, with its limits. ParseLine reads it.
func (h Host) Entry() string {
	s := h.String()
	if h.Slots > 0 {
		s += fmt.Sprintf(" slots=%d", h.Slots)
	}
	if h.GPUs != 0 {
		s += fmt.Sprintf(" gpus=%d", max(h.GPUs, 0))
	}
	if h.CPUs > 0 {
		s += fmt.Sprintf(" cpus=%d", h.CPUs)
	}
	return s
}

// SameLimits reports whether two lines give the same gpus= and cpus=.
func (h Host) SameLimits(o Host) bool { return h.GPUs == o.GPUs && h.CPUs == o.CPUs }

// Same reports whether two lines name the same login, so that one connection serves both.
func (h Host) Same(o Host) bool {
	return h.Key() == o.Key()
}

// Key is equal for all lines that name the same login. It has no limits.
func (h Host) Key() Host {
	n := h.named().Key()
	return Host{User: n.User, Name: n.Host, Port: n.Port}
}

// Merge has each host once, in the order of the first lines. The slots of a host's lines add up; a
// line without slots= sets no limit.
func Merge(all []Host) []Host {
	var merged []Host

	// index is the place in merged, by Key.
	index := make(map[Host]int)
	for _, h := range all {
		i, ok := index[h.Key()]
		if !ok {
			index[h.Key()] = len(merged)
			merged = append(merged, h)
			continue
		}
		if merged[i].Slots == 0 || h.Slots == 0 {
			merged[i].Slots = 0
		} else {
			merged[i].Slots += h.Slots
		}
	}
	return merged
}

// Read reads the hosts file at path.
func Read(path string) ([]Host, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read hosts file: %w", err)
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
		return nil, fmt.Errorf("read hosts file %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("hosts file %s: has more than %d bytes; is it a hosts file?", path, maxFile)
	}
	if bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("hosts file %s is UTF-16; save it as UTF-8", path)
	}
	var all []Host

	// first is by Key.
	first := make(map[Host]Host)
	for i, line := range strings.Split(lineEnds.Replace(string(b)), "\n") {
		line, _, _ = strings.Cut(line, "#")

		// The mark is inside the file where files were concatenated.
		line = strings.TrimLeft(line, byteOrderMark)
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		h, err := ParseLine(fields)
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, i+1, err)
		}
		h.Line = i + 1
		if o, ok := first[h.Key()]; ok && !o.SameLimits(h) {
			return nil, fmt.Errorf("%s line %d: %s: got other gpus= or cpus= than on line %d, want the same on all lines of a host", path, h.Line, h, o.Line)
		} else if !ok {
			first[h.Key()] = h
		}
		all = append(all, h)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("hosts file %s names no host; write one on each line: host[:port] [slots=N] [gpus=N] [cpus=N]", path)
	}
	return all, nil
}

// byteOrderMark is written by some editors at the start of a file.
const byteOrderMark = "\ufeff"

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Limits of the numbers of a line.
const (
	MaxSlots = 5000    // no job has more nodes
	MaxGPUs  = 1024    // no machine has more
	MaxCPUs  = 1 << 16 // no machine has more
)

// ParseLine reads the words of one line: [user@]host[:port] [slots=N] [gpus=N] [cpus=N].
func ParseLine(fields []string) (Host, error) {
	h, err := ParseHost(fields[0])
	if err != nil {
		return Host{}, err
	}
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		var field *int
		least, most, what := 1, 0, ""
		switch name {
		case "slots":
			field, most, what = &h.Slots, MaxSlots, "workers"
		case "gpus":
			field, least, most, what = &h.GPUs, 0, MaxGPUs, "GPUs"
		case "cpus":
			field, most, what = &h.CPUs, MaxCPUs, "processors"
		}
		if field == nil || name == f {
			return Host{}, fmt.Errorf("%s: got %q, want slots=N, gpus=N or cpus=N", h, f)
		}
		if *field != 0 {
			return Host{}, fmt.Errorf("%s: got %s= twice, want it once", h, name)
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return Host{}, fmt.Errorf("%s: got %s, want a number of %s from %d to %d", h, f, what, least, most)
		}
		if *field = n; n == 0 {
			*field = NoGPUs
		}
	}
	return h, nil
}

// ParseHost reads [user@]host[:port].
func ParseHost(s string) (Host, error) {
	n, err := hostname.Parse(s)
	return Host{User: n.User, Name: n.Host, Port: n.Port}, err
}
