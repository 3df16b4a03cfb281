package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/tune/internal/slots"
)

const (
	firstProbe  = time.Second     // after a host's first failure
	steadyAfter = 5 * time.Minute // without a failure, after which a host's earlier ones are forgotten

	defaultHostTimeout = 10 * time.Minute

	hostsRemoved = "hosts were removed" // why there is none
)

// slowestProbe is the most that a host is left alone, after many failures. Tests with real hosts
// make it shorter.
var slowestProbe = time.Minute

// A searchHost is a host of a search. Jobs.hostMu guards its fields, but for the Host.
type searchHost struct {
	hosts.Host
	why      error     // why it is set aside; nil: trials may run there
	failures int       // in a row, of trials and probes
	next     time.Time // of its next probe, if it is set aside
	probing  bool
	back     time.Time // since when trials may run there
}

// fail sets the host aside, or leaves it so.
func (h *searchHost) fail(why error, now time.Time) {
	if h.why == nil && now.Sub(h.back) >= steadyAfter {
		h.failures = 0
	}
	h.failures++
	h.why, h.next = why, now.Add(probeDelay(h.failures))
}

// probeDelay is how long a host is left alone after so many failures in a row: twice as long after
// each, up to a bound. Up to a quarter less at random, so that hosts that were lost together are
// not asked together.
func probeDelay(failures int) time.Duration {
	d := slowestProbe
	if failures <= 6 {
		d = min(d, firstProbe<<(failures-1))
	}
	return d - rand.N(d/4)
}

// host is the search's host of this name; nil: it has none. j.hostMu is held.
func (j *Jobs) host(h hosts.Host) *searchHost {
	i := slices.IndexFunc(j.all, func(x *searchHost) bool { return x.Same(h) })
	if i < 0 {
		return nil
	}
	return j.all[i]
}

// hostNames are the names of all hosts of the search, also of those that are set aside. j.hostMu is
// held.
func (j *Jobs) hostNames() string {
	var all []string
	for _, h := range j.all {
		all = append(all, h.String())
	}
	return strings.Join(all, ", ")
}

// hosts are those on which trials may run, in the order in which they were named; none if trials
// run on this machine.
func (j *Jobs) hosts() (all []hosts.Host) {
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	for _, h := range j.all {
		if h.why == nil {
			all = append(all, h.Host)
		}
	}
	return all
}

// suspect sets a host aside that has failed a trial: no more trials start there until it has
// answered a probe. That comes at once, unless the host has failed before.
func (j *Jobs) suspect(name string, why error) {
	parsed, err := hosts.ParseHost(name)
	if err != nil {
		return
	}
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	h := j.host(parsed)
	if h == nil || h.why != nil {
		return // it was removed, or is set aside already
	}
	now := time.Now()
	if h.fail(why, now); h.failures == 1 {
		h.next = now
	}
	_ = j.nodes.SetAside(h.String()) // it is among the nodes, or was drained meanwhile
	j.logger().Warn("tune: a host has failed a trial and is set aside until it answers", "host", h.String(), "cause", why)
	j.wakeKeeper()
}

// wakeKeeper lets keepHosts look at the hosts again.
func (j *Jobs) wakeKeeper() {
	select {
	case j.wake <- struct{}{}:
	default: // it will look
	}
}

// keepHosts implements hostKeeper.
func (j *Jobs) keepHosts(ctx context.Context, r Resources, replicas int) error {
	if j.prepare(ctx) != nil || j.remote == nil {
		return nil // the nodes are no hosts
	}
	ctx, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var since time.Time // since when no trial fits; zero: one does
	for {
		changed := j.nodes.Changed()
		now := time.Now()
		due, next := j.dueProbes(now)
		for _, h := range due {
			probes.Go(func() { j.probe(ctx, h) })
		}
		switch fits := j.hasRoom(ctx, r, replicas); {
		case fits && !since.IsZero():
			j.logger().Info("tune: the search has a host for a trial again", "waited", now.Sub(since).Round(time.Second))
			since = time.Time{}
		case fits:
		case since.IsZero():
			since = now
			j.logger().Warn("tune: no host is left for a trial; the search waits for one (launch tune add adds a host)", "for", j.hostTimeout(), "why", cmp.Or(j.awayText(), hostsRemoved))
		case now.Sub(since) >= j.hostTimeout():
			return fmt.Errorf("no host for a trial for %v: %s", j.hostTimeout(), cmp.Or(j.awayText(), hostsRemoved))
		}
		wait := slowestProbe
		if !next.IsZero() {
			wait = min(wait, next.Sub(now))
		}
		if !since.IsZero() {
			wait = min(wait, j.hostTimeout()-now.Sub(since))
		}
		timer.Reset(max(wait, 0))
		select {
		case <-timer.C:
		case <-changed:
		case <-j.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (j *Jobs) hostTimeout() time.Duration {
	if j.HostTimeout > 0 {
		return j.HostTimeout
	}
	return defaultHostTimeout
}

// dueProbes are the hosts to be probed now, and when the next one is (zero: no time is known).
func (j *Jobs) dueProbes(now time.Time) (due []*searchHost, next time.Time) {
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	for _, h := range j.all {
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
func (j *Jobs) probe(ctx context.Context, h *searchHost) {
	node, reached, err := j.inspect(ctx, h.Host)
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	h.probing = false
	defer j.wakeKeeper()
	switch {
	case ctx.Err() != nil || h.why == nil || !slices.Contains(j.all, h):
		return // the search ends, or the host was added or removed meanwhile
	case err == nil:
		err = j.takeBack(h, node)
	}
	if err == nil {
		return
	}
	h.fail(err, time.Now())
	if !reached && j.nodes.Lose(h.String()) == nil {
		j.logger().Warn("tune: a host cannot be reached: trials on it end, and it is probed until it answers", "host", h.String(), "error", err)
		j.change(fmt.Sprintf("host %s was lost", h))
	}
}

// inspect asks a host what it has, and brings it what was uploaded to the others. reached says that
// it answered at all.
func (j *Jobs) inspect(ctx context.Context, h hosts.Host) (node slots.Node, reached bool, err error) {
	has, err := j.ask(ctx, h)
	if err != nil {
		return slots.Node{}, false, err
	}
	if node, err = nodeOf(h, has); err != nil {
		return slots.Node{}, true, err
	}
	j.hostMu.Lock()
	files := slices.Clone(j.files)
	j.hostMu.Unlock()
	if len(files) > 0 {
		err = j.upload(ctx, h, files)
	}
	return node, true, err
}

// takeBack lets trials run on a host that was set aside. j.hostMu is held.
func (j *Jobs) takeBack(h *searchHost, node slots.Node) error {
	if !j.nodes.TakeBack(h.String()) {
		if err := j.nodes.Add(node); err != nil {
			return err
		}
	}
	h.why, h.back = nil, time.Now()
	j.logger().Info("tune: a host answers; trials may run there again", "host", h.String())
	j.change(fmt.Sprintf("host %s is back", h))
	return nil
}

// hasRoom says whether a trial could run now if the hosts that are not set aside were free, or one
// runs. replicas is how many an elastic one needs at least; 0: trials are not elastic.
func (j *Jobs) hasRoom(ctx context.Context, r Resources, replicas int) bool {
	able, free := 0, 0
	want := j.request(r)
	for _, u := range j.nodes.Usage() {
		if u.UsedCPUs > 0 || u.UsedSlots > 0 {
			return true
		}
		if !u.Leaving && !u.Aside && u.Fit(want) > 0 {
			able++
		}
	}
	if replicas == 0 {
		return able >= want.Hosts
	}
	all, err := j.Slots(ctx, r)
	for _, n := range all {
		free += n.Slots
	}
	return err == nil && free >= replicas
}

// awayText names the hosts that are set aside, each with its reason; "": none is.
func (j *Jobs) awayText() string {
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	var all []string
	for _, h := range j.all {
		if h.why != nil {
			all = append(all, fmt.Sprintf("%s: %v", h, h.why))
		}
	}
	return strings.Join(all, "; ")
}

// Add adds a host while a search runs, by a line of a hosts file. Trials may run there at once. A
// host that is set aside is taken back.
func (j *Jobs) Add(ctx context.Context, line string) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return errors.New("tune: add a host: got an empty line, want HOST [slots=N] [gpus=N] [cpus=N]")
	}
	h, err := hosts.ParseLine(words)
	if err != nil {
		return fmt.Errorf("tune: add a host: %w", err)
	}
	if err := j.prepare(ctx); err != nil {
		return err
	}
	if j.remote == nil {
		return fmt.Errorf("tune: add host %s: Jobs.HostFile is not set: trials run on this machine alone", h)
	}
	j.hostMu.Lock()
	known := j.host(h)
	if known != nil && known.why == nil {
		err = errors.New("the search has it already")
	}
	j.hostMu.Unlock()
	if err == nil && known != nil {
		h = known.Host // with the limits that the search knows
	}
	var node slots.Node
	if err == nil {
		node, _, err = j.inspect(ctx, h)
	}
	if err == nil {
		err = j.admit(h, known, node)
	}
	if err != nil {
		return fmt.Errorf("tune: add host %s: %w", h, err)
	}
	return nil
}

// admit takes a host that has answered; known is what it was when it was asked, nil if it was none
// of the search's.
func (j *Jobs) admit(h hosts.Host, known *searchHost, node slots.Node) error {
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	switch now := j.host(h); {
	case now != nil && now == known && known.why == nil: // a probe was faster
		return nil
	case now != nil:
		return j.takeBack(now, node)
	}
	if err := j.nodes.Add(node); err != nil {
		return err
	}
	j.all = append(j.all, &searchHost{Host: h, back: time.Now()})
	j.change(fmt.Sprintf("host %s was added", h))
	return nil
}

// Remove removes a host: no more trials start there, and those that run there run to their end.
func (j *Jobs) Remove(host string) error {
	if err := j.prepare(context.Background()); err != nil {
		return err
	}
	j.hostMu.Lock()
	defer j.hostMu.Unlock()
	away := false
	if parsed, err := hosts.ParseHost(host); err == nil {
		if h := j.host(parsed); h != nil {
			host, away = h.String(), h.why != nil
			j.all = slices.DeleteFunc(j.all, func(x *searchHost) bool { return x == h })
		}
	}
	if err := j.nodes.Drain(host); err != nil && !away { // the node of one that was lost is gone
		return fmt.Errorf("tune: remove host %s: the search has no such host; it has %s", host, cmp.Or(j.hostNames(), "none"))
	}
	j.change(fmt.Sprintf("host %s was removed", host))
	return nil
}
