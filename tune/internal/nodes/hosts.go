package nodes

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

const (
	// firstProbe is how long a host is left alone after its first failure.
	firstProbe = time.Second
	// slowestProbe is Config.SlowestProbe where it is zero.
	slowestProbe = time.Minute
	// steadyAfter is the time without a failure after which a host's earlier ones are
	// forgotten.
	steadyAfter = 5 * time.Minute
	// hostsRemoved says why there is no host where none is set aside.
	hostsRemoved = "hosts were removed"
)

// A searchHost is a host of a search: in use, or set aside. hostSet.mu guards its fields, but for
// the Host, which never changes.
type searchHost struct {
	hosts.Host
	// why is the reason for which the host is set aside; nil: trials may run there.
	why error
	// failures counts failures of trials and probes in a row.
	failures int
	// next is the time of the next probe of a host that is set aside.
	next time.Time
	// probing says that a probe is under way: there is one at a time.
	probing bool
	// back is since when trials may run there.
	back time.Time
}

// fail sets the host aside, or leaves it so.
func (h *searchHost) fail(why error, now time.Time, slowest time.Duration) {
	if h.why == nil && now.Sub(h.back) >= steadyAfter {
		h.failures = 0
	}
	h.failures++
	h.why, h.next = why, now.Add(probeDelay(h.failures, slowest))
}

// probeDelay is how long a host is left alone after so many failures in a row: twice as long after
// each, up to a bound. Up to a quarter less at random, so that hosts that were lost together are
// not asked together.
func probeDelay(failures int, slowest time.Duration) time.Duration {
	d := slowest
	if failures <= 6 {
		d = min(d, firstProbe<<(failures-1))
	}
	return d - rand.N(d/4)
}

// A hostSet is the hosts of a search, in use or set aside, in the order in which they were named.
//
// Each host in use has a node in alloc. One that is set aside keeps its node, to which alloc then
// gives no new trials, until a probe finds that it cannot be reached: then the node is lost with
// all that runs there.
type hostSet struct {
	cfg    Config
	alloc  *slots.Allocator
	remote *ssh.Method
	ask    asker
	// wake holds one token: keep is to look at the hosts again.
	wake chan struct{}

	// mu guards the rest. It is taken before alloc's.
	mu  sync.Mutex
	all []*searchHost
	// files were uploaded to all hosts. Hosts that come later get them, too.
	files []string
}

// host is the search's host of this name; nil: it has none. s.mu is held.
func (s *hostSet) host(h hosts.Host) *searchHost {
	i := slices.IndexFunc(s.all, func(x *searchHost) bool { return x.Same(h) })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

// names are the names of all hosts of the search, also of those that are set aside. s.mu is
// held.
func (s *hostSet) names() string {
	var all []string
	for _, h := range s.all {
		all = append(all, h.String())
	}
	return strings.Join(all, ", ")
}

// inUse are the hosts on which trials may run, in the order in which they were named.
func (s *hostSet) inUse() (all []hosts.Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if h.why == nil {
			all = append(all, h.Host)
		}
	}
	return all
}

// suspect sets a host aside that has failed a trial: no more trials start there until it has
// answered a probe. That comes at once, unless the host has failed before.
func (s *hostSet) suspect(name string, why error) {
	parsed, err := hosts.ParseHost(name)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.host(parsed)
	if h == nil || h.why != nil {
		// It was removed, or is set aside already.
		return
	}
	now := time.Now()
	if h.fail(why, now, s.cfg.SlowestProbe); h.failures == 1 {
		h.next = now
	}
	// SetAside fails only if the node was drained meanwhile.
	_ = s.alloc.SetAside(h.String())
	s.cfg.Logger.Warn("tune: a host has failed a trial and is set aside until it answers", "host", h.String(), "cause", why)
	s.awaken()
}

// awaken lets keep look at the hosts again.
func (s *hostSet) awaken() {
	select {
	case s.wake <- struct{}{}:
	default:
		// Another signal is waiting already, and makes keep look.
	}
}

// A Need is what a trial needs of the nodes, so that a search can go on.
type Need struct {
	// Trial is what one trial needs. With Replicas above 0 trials are elastic: each needs at
	// least so many times what Replica says.
	Trial    slots.Request
	Replica  slots.Request
	Replicas int
	// Timeout is how long a search may be without a host for a trial.
	Timeout time.Duration
}

// keep probes hosts that are set aside until ctx ends. Its error says that there has been no host
// for a trial for too long.
func (s *hostSet) keep(ctx context.Context, need Need) error {
	ctx, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	lack := lack{logger: s.cfg.Logger, timeout: need.Timeout}
	for {
		changed := s.alloc.Changed()
		now := time.Now()
		due, next := s.dueProbes(now)
		for _, h := range due {
			probes.Go(func() { s.probe(ctx, h) })
		}
		if err := lack.note(s.hasRoom(need), now, s.awayText); err != nil {
			return err
		}
		wait := s.cfg.SlowestProbe
		if !next.IsZero() {
			wait = min(wait, next.Sub(now))
		}
		timer.Reset(max(lack.atMost(wait, now), 0))
		select {
		case <-timer.C:
		case <-changed:
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// dueProbes are the hosts to be probed now, and when the next one is (zero: no time is known).
func (s *hostSet) dueProbes(now time.Time) (due []*searchHost, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		switch {
		case h.why == nil || h.probing:
		case !h.next.After(now):
			h.probing = true
			due = append(due, h)
		case next.IsZero() || h.next.Before(next):
			next = h.next
		}
	}
	return due, next
}

// probe asks a host that is set aside, and takes it back if it answers. Trials that run on one that
// cannot be reached are ended.
func (s *hostSet) probe(ctx context.Context, h *searchHost) {
	node, reached, err := s.inspect(ctx, h.Host)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.probing = false
	defer s.awaken()
	switch {
	case ctx.Err() != nil || h.why == nil || !slices.Contains(s.all, h):
		// The search ends, or the host was added or removed meanwhile.
		return
	case err == nil:
		err = s.takeBack(h, node)
	}
	if err == nil {
		return
	}
	h.fail(err, time.Now(), s.cfg.SlowestProbe)
	if !reached && s.alloc.Lose(h.String()) == nil {
		s.cfg.Logger.Warn("tune: a host cannot be reached: trials on it end, and it is probed until it answers", "host", h.String(), "error", err)
		s.cfg.Changed(fmt.Sprintf("host %s was lost", h))
	}
}

// inspect asks a host what it has, and brings it what was uploaded to the others. reached says that
// it answered at all.
func (s *hostSet) inspect(ctx context.Context, h hosts.Host) (node slots.Node, reached bool, err error) {
	has, err := s.ask(ctx, h)
	if err != nil {
		return slots.Node{}, false, err
	}
	if node, err = nodeOf(h, has); err != nil {
		return slots.Node{}, true, err
	}
	s.mu.Lock()
	files := slices.Clone(s.files)
	s.mu.Unlock()
	if len(files) > 0 {
		err = s.upload(ctx, h, files)
	}
	return node, true, err
}

// takeBack lets trials run on a host that was set aside. s.mu is held.
func (s *hostSet) takeBack(h *searchHost, node slots.Node) error {
	if !s.alloc.TakeBack(h.String()) {
		if err := s.alloc.Add(node); err != nil {
			return err
		}
	}
	h.why, h.back = nil, time.Now()
	s.cfg.Logger.Info("tune: a host answers; trials may run there again", "host", h.String())
	s.cfg.Changed(fmt.Sprintf("host %s is back", h))
	return nil
}

// hasRoom says whether a trial could run now if the hosts that are not set aside were free, or one
// runs.
func (s *hostSet) hasRoom(need Need) bool {
	able, free := 0, 0
	for _, u := range s.alloc.Usage() {
		if u.UsedCPUs > 0 || u.UsedSlots > 0 {
			return true
		}
		if u.Leaving {
			continue
		}
		if !u.Aside && u.Fit(need.Trial) > 0 {
			able++
		}
		if need.Replicas > 0 {
			free += max(min(u.Fit(need.Replica), maxReplicas), 0)
		}
	}
	if need.Replicas == 0 {
		return able >= need.Trial.Hosts
	}
	return free >= need.Replicas
}

// away are the hosts that are set aside, each with its reason.
func (s *hostSet) away() (all []awayHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if h.why != nil {
			all = append(all, awayHost{h.String(), h.why})
		}
	}
	return all
}

// awayText is for people why there is no host.
func (s *hostSet) awayText() string { return cmp.Or(textOf(s.away()), hostsRemoved) }
