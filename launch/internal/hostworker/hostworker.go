// Package hostworker keeps the two files by which operators change the hosts of a running job, and
// see which hosts joined and left.
//
// host_worker has one worker host a line, as a hosts file does (with comments, blank lines,
// slots=N, gpus=N and cpus=N). An edit adds hosts to the job or removes hosts from it. Its lines
// are a set: their order does not matter, and a host that is listed twice is listed once.
// host_worker_log gets a line for each host that has been added or removed:
//
//	SEQ ADDED|REMOVED HOST NS
//
// SEQ counts the lines of the file from 0, including those of earlier jobs and launchers. NS is the
// time in nanoseconds since 1970.
package hostworker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/files/lockfile"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// The files' names.
const (
	Name    = "host_worker"
	LogName = Name + "_log"
)

// The actions of the log.
const (
	Added   = "ADDED"
	Removed = "REMOVED"
)

// Files are the two files of one job. The methods may be called together.
type Files struct {
	// Path is the path of host_worker.
	Path string

	// LogPath is the path of host_worker_log.
	LogPath string

	// NewLog says that host_worker_log was not there before.
	NewLog bool

	// mu guards the fields below, and the files.
	mu sync.Mutex

	// log is locked as long as the job lives.
	log *os.File

	// next is the SEQ of the next line.
	next uint64

	listed []hosts.Host

	// bad is the text that the last Poll could not read. It is told once.
	bad string

	// seen is what the last Poll read; nil: it read nothing good, or we have changed the file
	// since. It spares the comparison of a file of 1000 hosts, which takes time.
	seen []byte
}

// Open takes the files in dir for a job that begins on the given hosts: host_worker is written
// anew, host_worker_log is made or gone on with. Only one job at a time can have a folder's files.
func Open(dir string, base []hosts.Host) (*Files, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("launch: worker host file: %w", err)
	}
	f := &Files{Path: filepath.Join(dir, Name), LogPath: filepath.Join(dir, LogName), listed: distinct(base)}
	_, err = os.Lstat(f.LogPath)
	f.NewLog = errors.Is(err, fs.ErrNotExist)
	if f.log, err = os.OpenFile(f.LogPath, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("launch: worker host log file: %w", err)
	}
	if err := lockfile.Take(f.log); err != nil {
		f.log.Close()
		if errors.Is(err, lockfile.ErrTaken) {
			return nil, fmt.Errorf("launch: worker host log file %s belongs to a job that still runs; start this one in another folder", f.LogPath)
		}
		return nil, err
	}
	if f.next, err = nextNumber(f.log); err != nil {
		f.log.Close()
		return nil, fmt.Errorf("launch: worker host log file %s: %w", f.LogPath, err)
	}
	var b strings.Builder
	for _, h := range f.listed {
		b.WriteString(line(h))
	}
	if err := replace(f.Path, []byte(b.String())); err != nil {
		f.log.Close()
		return nil, fmt.Errorf("launch: worker host file: %w", err)
	}
	return f, nil
}

// Close gives the files up; they stay.
func (f *Files) Close() error { return f.log.Close() }

// Hosts returns the hosts that the file names, as far as it has been read.
func (f *Files) Hosts() []hosts.Host {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]hosts.Host(nil), f.listed...)
}

// Read returns the hosts that the file names now, also those that no Poll has returned yet.
func (f *Files) Read() ([]hosts.Host, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := hosts.Read(f.Path)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	return summed(now), nil
}

// A Change is what an edit of host_worker asks for.
type Change struct {
	// Added is in the file's order, and Removed in the order of the file before.
	Added, Removed []hosts.Host

	// Resized are hosts that stay, with other slots=, gpus= or cpus=.
	Resized []hosts.Host
}

// Empty reports whether nothing is asked for.
func (c Change) Empty() bool { return len(c.Added)+len(c.Removed)+len(c.Resized) == 0 }

// Poll reads host_worker and returns what has changed since the last time. A file that cannot be
// read, or that names no host at all, changes nothing: its error is returned once.
func (f *Files) Poll() (Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := os.ReadFile(f.Path)
	if err == nil && f.seen != nil && bytes.Equal(text, f.seen) {
		return Change{}, nil
	}
	f.seen = nil
	var now []hosts.Host
	if err == nil {
		now, err = hosts.Parse(bytes.NewReader(text), f.Path)
	}
	if err != nil {
		told := f.bad
		if f.bad = err.Error(); f.bad == told {
			return Change{}, nil
		}
		return Change{}, fmt.Errorf("launch: %w; the job keeps its hosts", err)
	}
	f.bad = ""
	now = summed(now)
	var c Change
	for i, h := range now {
		old := find(f.listed, h)
		if old == nil {
			c.Added = append(c.Added, h)
			continue
		}
		if !same(*old, h) {
			c.Resized = append(c.Resized, h)
		}

		// The job knows the host by that spelling.
		now[i].Name = old.Name
	}
	for _, h := range f.listed {
		if find(now, h) == nil {
			c.Removed = append(c.Removed, h)
		}
	}
	f.listed, f.seen = now, text
	return c, nil
}

// Add writes a host into host_worker that was added by other means than its edit; what stands there
// stays, unless the host is there with other limits: it could not join before, say.
func (f *Files) Add(h hosts.Host) error {
	return f.edit(func(text []string) []string {
		old := find(f.listed, h)
		switch {
		case old == nil:
			f.listed = append(f.listed, h)
			return append(text, line(h))
		case same(*old, h):
			return nil
		}
		old.Slots, old.GPUs, old.CPUs = h.Slots, h.GPUs, h.CPUs
		return withEntry(text, *old)
	})
}

// Edit writes what c asks for into host_worker as an operator's edit does: the next Poll returns
// it. A host of c.Added that is in the file already keeps its line, and one of c.Resized that is
// not in the file is not put there.
func (f *Files) Edit(c Change) error {
	if c.Empty() {
		return nil
	}
	return f.edit(func(text []string) []string {
		before, changed := parsed(text), false
		kept := []string{}
		var there []hosts.Host
		for i, l := range text {
			if h := before[i]; h == nil {
				kept = append(kept, l)
			} else if find(c.Removed, *h) == nil {
				kept, there = append(kept, l), append(there, *h)
			} else {
				changed = true
			}
		}
		for _, h := range c.Resized {
			if find(there, h) != nil {
				kept, changed = withEntry(kept, h), true
			}
		}
		for _, h := range c.Added {
			if find(there, h) == nil {
				kept, there, changed = append(kept, line(h)), append(there, h), true
			}
		}
		if !changed {
			return nil
		}
		return kept
	})
}

// Repeat has the next Poll return a host as added, if it is in the file: the job could not use it
// before, and can now.
func (f *Files) Repeat(h hosts.Host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed = slices.DeleteFunc(f.listed, h.Same)
	f.seen = nil
}

// withEntry is text with h in place of all lines of its host. The comment of the first of them
// stays.
func withEntry(text []string, h hosts.Host) []string {
	now, written := []string{}, false
	for _, l := range text {
		switch is := isOf(l, h); {
		case is && !written:
			entry := strings.TrimSuffix(line(h), "\n")
			if _, comment, ok := strings.Cut(l, "#"); ok {
				entry += " #" + strings.TrimRight(comment, "\r\n")
			}
			now, written = append(now, entry+"\n"), true
		case !is:
			now = append(now, l)
		}
	}
	return now
}

// parsed has the host of each line; nil: the line names none, or cannot be read.
func parsed(text []string) []*hosts.Host {
	all := make([]*hosts.Host, len(text))
	for i, l := range text {
		if in, err := hosts.Parse(strings.NewReader(l), ""); err == nil {
			all[i] = &in[0]
		}
	}
	return all
}

// isOf reports whether a line is one of a host.
func isOf(line string, h hosts.Host) bool {
	in, err := hosts.Parse(strings.NewReader(line), "")
	return err == nil && in[0].Same(h)
}

// same reports whether a host has the same limits in two lines.
func same(a, b hosts.Host) bool { return max(a.Slots, 1) == max(b.Slots, 1) && a.SameLimits(b) }

// Remove takes a host's lines out of host_worker.
func (f *Files) Remove(h hosts.Host) error {
	return f.edit(func(text []string) []string {
		if find(f.listed, h) == nil {
			return nil
		}
		var listed []hosts.Host
		for _, l := range f.listed {
			if !l.Same(h) {
				listed = append(listed, l)
			}
		}
		f.listed = listed

		// kept is not nil, since nil would change nothing.
		kept := []string{}
		for _, l := range text {
			if !isOf(l, h) {
				kept = append(kept, l)
			}
		}
		return kept
	})
}

// loneReturns makes line ends of old Macs ordinary ones.
var loneReturns = strings.NewReplacer("\r\n", "\r\n", "\r", "\n")

// edit changes the lines of host_worker; nil leaves them.
func (f *Files) edit(change func(lines []string) []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return fmt.Errorf("launch: worker host file: %w", err)
	}
	all := loneReturns.Replace(string(text))
	if all != "" && !strings.HasSuffix(all, "\n") {
		all += "\n"
	}
	lines := change(strings.SplitAfter(all, "\n"))
	if lines == nil {
		return nil
	}
	f.seen = nil
	if err := replace(f.Path, []byte(strings.Join(lines, ""))); err != nil {
		return fmt.Errorf("launch: worker host file: %w", err)
	}
	return nil
}

// Log writes a line into host_worker_log: action happened to host, at a time in nanoseconds since
// 1970.
func (f *Files) Log(action, host string, nanoseconds int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := fmt.Fprintf(f.log, "%d %s %s %d\n", f.next, action, host, nanoseconds); err != nil {
		return fmt.Errorf("launch: worker host log file: %w", err)
	}
	f.next++
	return nil
}

// nextNumber is the SEQ that follows the file's last line. A last line that was cut is ended first.
func nextNumber(file *os.File) (uint64, error) {
	b, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		if _, err := file.WriteString("\n"); err != nil {
			return 0, err
		}
	}
	var next uint64
	for l := range strings.Lines(string(b)) {
		first, _, _ := strings.Cut(l, " ")
		if n, err := strconv.ParseUint(first, 10, 63); err == nil && n >= next {
			next = n + 1
		}
	}
	return next, nil
}

// line is h as a line of the file. One slot is what a host has anyway.
func line(h hosts.Host) string {
	if h.Slots == 1 {
		h.Slots = 0
	}
	return h.Entry() + "\n"
}

// Places are the hosts of so many workers, each once, with as many slots as workers run there.
func Places(workers []hosts.Host) []hosts.Host {
	out := distinct(workers)
	for i := range out {
		out[i].Slots = 0
		for _, w := range workers {
			if w.Same(out[i]) {
				out[i].Slots++
			}
		}
	}
	return out
}

// summed has the hosts of all once, in their order, with the slots of all their lines.
func summed(all []hosts.Host) (out []hosts.Host) {
	for _, h := range all {
		h.Line = 0
		if o := find(out, h); o != nil {
			o.Slots += h.Slots
		} else {
			out = append(out, h)
		}
	}
	return out
}

// distinct has the hosts of all once, in their order.
func distinct(all []hosts.Host) []hosts.Host {
	var out []hosts.Host
	for _, h := range all {
		if h.Line = 0; find(out, h) == nil {
			out = append(out, h)
		}
	}
	return out
}

func find(all []hosts.Host, h hosts.Host) *hosts.Host {
	for i := range all {
		if all[i].Same(h) {
			return &all[i]
		}
	}
	return nil
}

// replace writes a file so that nobody ever reads a part of it.
func replace(path string, text []byte) error {
	next := path + ".tmp"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}
