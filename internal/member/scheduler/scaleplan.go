package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/member/hostname"
	"github.com/paragon-train/paragon/internal/observe/plural"
)

// A scalePlan is how a number of workers can be reached: on which hosts workers are started, and
// which of them leave. Making it changes nothing; scaler.begin carries it out (scale.go).
type scalePlan struct {
	scaling
	// cancelled are workers that are not started after all.
	cancelled []*wantedProcess
}

// planText says what a scaling does, for people.
func (s *scalePlan) planText(env scaleEnv) string {
	var parts []string
	for _, g := range s.Starts {
		parts = append(parts, fmt.Sprintf("%d more on %s", g.Workers, g.Host))
	}
	fewer := make(map[string]int)
	for _, p := range s.cancelled {
		fewer[p.Host]++
	}
	for _, host := range slices.Sorted(maps.Keys(fewer)) {
		parts = append(parts, fmt.Sprintf("%d of those about to start on %s are cancelled", fewer[host], host))
	}
	for _, number := range s.Releases {
		p := env.fleet.of(number)
		parts = append(parts, fmt.Sprintf("%s on %s leaves", p.name(), p.Host))
	}
	if len(parts) == 0 {
		return "all of them are running or starting"
	}
	return strings.Join(parts, ", ")
}

// planPlacement plans for workers on hosts that were named. It returns why that is not possible.
func (s *scalePlan) planPlacement(env scaleEnv, placement []control.WorkersOnHost) (refusal string) {
	var named []string
	moves := false
	for _, x := range placement {
		h, err := hostname.Parse(x.Host)
		if err != nil {
			return err.Error()
		}
		host := h.String()
		p := env.sites.of(host)
		if p != nil {
			host = p.Name
		}
		have, known := env.fleet.staying(host), p != nil && p.Workers
		named = append(named, host)
		s.Placement = append(s.Placement, control.WorkersOnHost{Host: host, Workers: x.Workers})
		switch {
		case env.departing.has(host) && x.Workers > 0:
			return fmt.Sprintf("host %s is being taken away", host)
		case !known && (x.Workers > have || have == 0):
			return fmt.Sprintf("host %s is not one of the job's hosts: name one of its hosts file, or add it first with launch ctl add", host)
		case !known:
		case p.Slots > 0 && x.Workers > p.Slots:
			return fmt.Sprintf("host %s has no free slot: %d workers are wanted, and it has slots=%d", host, x.Workers, p.Slots)
		case x.Workers > have:
			s.Starts = append(s.Starts, starts{host, x.Workers - have})
		}
		moves = moves || x.Workers > have
		s.planReleases(env, []string{host}, have-x.Workers)
	}
	for _, host := range env.sites.occupied(env.fleet.staying) {
		if !slices.Contains(named, host) {
			s.planReleases(env, []string{host}, env.fleet.staying(host))
		}
	}
	if env.set.Elastic.MaxWorkers == 1 && moves && len(s.Releases) > 0 {
		return "a job of at most 1 worker (--max-workers) cannot move it to another host: the new one joins before the old one leaves"
	}
	return ""
}

// planNumber plans for a number of workers, on hosts with free slots. It returns why that is not
// possible.
func (s *scalePlan) planNumber(env scaleEnv) (refusal string) {
	have := env.sites.inAll(env.fleet.staying)
	missing := s.Workers - have
	if missing <= 0 {
		s.planReleases(env, env.sites.occupied(env.fleet.staying), -missing)
		return ""
	}
	more, placed := env.sites.room(missing, env.fleet.staying, nil)
	if placed < missing {
		return fmt.Sprintf("no free slot for %d of %s: %s", missing-placed, plural.Of(s.Workers, "worker"), env.sites.text(env.fleet.staying))
	}
	s.Starts = more
	return ""
}

// planReleases plans that so many workers of some hosts leave: those that are not started yet, then
// those that have not joined, then the highest ranks.
func (s *scalePlan) planReleases(env scaleEnv, on []string, count int) {
	var all []*wantedProcess
	for _, host := range on {
		for _, p := range slices.Backward(env.fleet.stayingOn(host)) {
			begun := p.Seen != "" && p.Seen != control.StateWaiting || env.roster.ofProcess(p.Process) != nil
			if count > 0 && !begun {
				s.cancelled = append(s.cancelled, p)
				count--
				continue
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *wantedProcess) int {
		switch {
		case a.Joined != b.Joined && b.Joined:
			return -1
		case a.Joined != b.Joined:
			return 1
		}
		return cmp.Or(cmp.Compare(b.known(), a.known()), cmp.Compare(b.Process, a.Process))
	})
	for _, p := range all[:max(min(count, len(all)), 0)] {
		s.Releases = append(s.Releases, p.Process)
	}
}
