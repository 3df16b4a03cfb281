package method

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
)

// SSH reaches the hosts of a list by ssh.
type SSH struct {
	find    func(ctx context.Context) ([]hosts.Host, error)
	method  *ssh.Method
	log     *slog.Logger
	source  ssh.Source
	syncDir string

	// measure has how much is copied said once.
	measure sync.Once
}

// NewSSH makes an SSH. find has the hosts, and may wait for them. The source is the folder in which
// launch runs; with a syncDir it is copied there on each host.
func NewSSH(find func(ctx context.Context) ([]hosts.Host, error), cfg ssh.Config, source ssh.Source, syncDir string) *SSH {
	return &SSH{find: find, method: ssh.New(cfg), log: cfg.Logger, source: source, syncDir: syncDir}
}

// Remote implements Method.
func (*SSH) Remote() bool { return true }

// Hosts implements Method.
func (s *SSH) Hosts(ctx context.Context) (Hosts, error) {
	all, err := s.find(ctx)
	return Any(all), err
}

// Dial implements Method.
func (s *SSH) Dial(ctx context.Context, h hosts.Host) (Machine, error) {
	m, err := s.method.Dial(ctx, h)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Dir implements Method.
func (s *SSH) Dir() string {
	if s.syncDir != "" {
		return s.syncDir
	}
	return s.source.Dir
}

// Command implements Method.
func (s *SSH) Command(h hosts.Host) string { return strings.Join(s.method.Words(h), " ") }

// SyncDir implements Copier.
func (s *SSH) SyncDir() string { return s.syncDir }

// Sync implements Copier.
func (s *SSH) Sync(ctx context.Context, m Machine) error {
	s.measure.Do(func() {
		size, err := s.source.Size()
		if err != nil {
			s.log.Warn("folder to copy", "error", err)
			return
		}
		s.log.Info(fmt.Sprintf("each host gets a copy of %s: %s", s.source.Dir, size))
	})
	return s.method.Sync(ctx, m.(*ssh.Machine), s.source, s.syncDir)
}

// Copy implements Copier.
func (s *SSH) Copy(ctx context.Context, m Machine, file, dir string) error {
	return s.method.Copy(ctx, m.(*ssh.Machine), file, dir)
}

// Close implements Method.
func (*SSH) Close() error { return nil }
