package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// Add adds a host while a search runs, by a line of a hosts file. Trials may run there at once. A
// host that is set aside is taken back.
func (s *Set) Add(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return errors.New("tune: add a host: got an empty line, want HOST [slots=N] [gpus=N] [cpus=N]")
	}
	h, err := hosts.ParseLine(words)
	if err != nil {
		return fmt.Errorf("tune: add a host: %w", err)
	}
	if s.hosts == nil {
		return fmt.Errorf("tune: add host %s: Jobs.HostFile is not set: trials run on this machine alone", h)
	}
	return s.hosts.add(ctx, h)
}

// Remove removes a node: no more trials start there, and those that run there run to their end.
func (s *Set) Remove(name string) error {
	if s.hosts != nil {
		return s.hosts.remove(name)
	}
	if err := s.Alloc.Drain(name); err != nil {
		return fmt.Errorf("tune: remove host %s: the search has no such host; it has none", name)
	}
	s.changed(fmt.Sprintf("host %s was removed", name))
	return nil
}

// Suspect sets a host aside that has failed a trial: no more trials start there until it has
// answered a probe. That comes at once, unless the host has failed before.
func (s *Set) Suspect(name string, why error) {
	if s.hosts != nil {
		s.hosts.suspect(name, why)
	}
}

// Keep probes hosts that are set aside until ctx ends. Its error says that there has been no host
// for a trial for too long. It returns at once where the nodes are no hosts.
func (s *Set) Keep(ctx context.Context, need Need) error {
	if s.hosts == nil {
		return nil
	}
	return s.hosts.keep(ctx, need)
}

// Upload copies files to the folder on every host, and to hosts that come later. On this machine
// there is nothing to do.
func (s *Set) Upload(ctx context.Context, files ...string) error {
	if err := regular(files); err != nil || s.hosts == nil {
		return err
	}
	return s.hosts.uploadAll(ctx, files)
}

// add adds a host while a search runs, by a line of a hosts file. Trials may run there at once. A
// host that is set aside is taken back.
func (s *hostSet) add(ctx context.Context, h hosts.Host) (err error) {
	s.mu.Lock()
	known := s.host(h)
	if known != nil && known.why == nil {
		err = errors.New("the search has it already")
	}
	s.mu.Unlock()
	if err == nil && known != nil {
		// The limits stay those that the search knows.
		h = known.Host
	}
	var node slots.Node
	if err == nil {
		node, _, err = s.inspect(ctx, h)
	}
	if err == nil {
		err = s.admit(h, known, node)
	}
	if err != nil {
		return fmt.Errorf("tune: add host %s: %w", h, err)
	}
	return nil
}

// admit takes a host that has answered; known is what it was when it was asked, nil if it was none
// of the search's.
func (s *hostSet) admit(h hosts.Host, known *searchHost, node slots.Node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := s.host(h); {
	case now != nil && now == known && known.why == nil:
		// A probe has taken it back meanwhile.
		return nil
	case now != nil:
		return s.takeBack(now, node)
	}
	if err := s.alloc.Add(node); err != nil {
		return err
	}
	s.all = append(s.all, &searchHost{Host: h, back: time.Now()})
	s.cfg.Changed(fmt.Sprintf("host %s was added", h))
	return nil
}

// remove removes a host: no more trials start there, and those that run there run to their end.
func (s *hostSet) remove(host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	away := false
	if parsed, err := hosts.ParseHost(host); err == nil {
		if h := s.host(parsed); h != nil {
			host, away = h.String(), h.why != nil
			s.all = slices.DeleteFunc(s.all, func(x *searchHost) bool { return x == h })
		}
	}
	// A host that was lost has no node any more.
	if err := s.alloc.Drain(host); err != nil && !away {
		return fmt.Errorf("tune: remove host %s: the search has no such host; it has %s", host, cmp.Or(s.names(), "none"))
	}
	s.cfg.Changed(fmt.Sprintf("host %s was removed", host))
	return nil
}
