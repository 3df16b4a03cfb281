package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/affinity"
	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/gpus"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

// hostTimeout bounds a question to a host. A host that does not have this launch program yet gets
// it first.
const hostTimeout = time.Minute

// slowAnswer is after which time without an answer a search says which hosts it waits for before it
// starts.
const slowAnswer = 5 * time.Second

// Lease is after which time without a sign of this process a host ends what this process runs
// there.
const Lease = 4 * time.Second

// findHosts reads the hosts file, asks all of its hosts, and sets those aside that cannot be used.
func findHosts(ctx context.Context, cfg Config, alloc *slots.Allocator) (*hostSet, error) {
	named, err := hosts.Read(cfg.HostFile)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	s := &hostSet{cfg: cfg, alloc: alloc, ask: cfg.ask, wake: make(chan struct{}, 1)}
	if s.remote, err = newRemote(cfg); err != nil {
		return nil, err
	}
	if s.ask == nil {
		s.ask = s.askHost
	}
	all := hosts.Merge(named)
	found, errs := s.askAll(ctx, all)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range all {
		x := &searchHost{Host: h, back: time.Now()}
		s.all = append(s.all, x)
		if errs[i] == nil {
			errs[i] = alloc.Add(found[i])
		}
		if errs[i] != nil {
			x.fail(errs[i], x.back, cfg.SlowestProbe)
			cfg.Logger.Warn("tune: a host cannot be used and is set aside; it is probed until it answers", "host", h.String(), "error", errs[i])
		}
	}
	if len(alloc.Usage()) == 0 {
		return nil, fmt.Errorf("tune: hosts file %s: no host can be used: %w", cfg.HostFile, errors.Join(errs...))
	}
	return s, nil
}

// askAll asks all hosts together. If some take long it says once which ones.
func (s *hostSet) askAll(ctx context.Context, all []hosts.Host) (found []slots.Node, errs []error) {
	found, errs = make([]slots.Node, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	answered := make([]atomic.Bool, len(all))
	slow := time.AfterFunc(slowAnswer, func() {
		var names []string
		for i, h := range all {
			if !answered[i].Load() {
				names = append(names, h.String())
			}
		}
		// The last of them may have just answered.
		if len(names) > 0 {
			s.cfg.Logger.Info("tune: waiting for hosts to answer", "hosts", strings.Join(names, " "), "at most", hostTimeout)
		}
	})
	for i, h := range all {
		asking.Go(func() {
			found[i], _, errs[i] = s.inspect(ctx, h)
			answered[i].Store(true)
		})
	}
	asking.Wait()
	slow.Stop()
	return found, errs
}

// localNode is this machine, with the processors and GPUs that this process may use.
func localNode(logger *slog.Logger) slots.Node {
	n := slots.Node{Name: LocalName, CPUs: affinity.Own()}
	var err error
	if n.GPUs, err = gpus.Usable(os.LookupEnv, gpus.Installed); err != nil {
		logger.Warn("tune: the GPUs of this machine cannot be listed; trials get none", "error", err)
	}
	return n
}

// newRemote makes what reaches hosts by ssh.
func newRemote(cfg Config) (*ssh.Method, error) {
	command := cmp.Or(cfg.SSH, os.Getenv(ssh.Variable), "ssh")
	words, err := ssh.SplitWords(command)
	if err == nil && len(words) == 0 {
		err = errors.New("it has no words")
	}
	if err != nil {
		return nil, fmt.Errorf("tune: the ssh client %q is not a command: %w", command, err)
	}
	launch, err := cfg.Launch()
	if err != nil {
		return nil, err
	}
	return ssh.New(ssh.Config{Command: words, Executable: launch, AgentArgs: []string{"agent", Lease.String()}, Logger: cfg.Logger}), nil
}

// onHost connects to a host and calls f.
func (s *hostSet) onHost(ctx context.Context, h hosts.Host, f func(context.Context, *ssh.Machine) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, hostTimeout, fmt.Errorf("no answer within %v", hostTimeout))
	defer cancel()
	m, err := s.remote.Dial(ctx, h)
	if err == nil {
		err = f(ctx, m)
		if closed := m.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return WithoutLaunch(err)
	}
	return nil
}

// askHost asks a host for its processors and GPUs.
func (s *hostSet) askHost(ctx context.Context, h hosts.Host) (has agent.Answer, err error) {
	err = s.onHost(ctx, h, func(ctx context.Context, m *ssh.Machine) (err error) {
		has, err = m.Ask(ctx, agent.Question{Hardware: true})
		return err
	})
	return has, err
}
