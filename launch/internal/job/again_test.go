package job

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// onHosts makes s a job over ssh, on machines of their own, and returns how often each of them was
// connected to. after is when the connection to one is lost after it was made; 0: never.
func (s *setup) onHosts(script func(p *proc), after map[string]time.Duration, names ...string) (dials func() map[string]int) {
	var mu sync.Mutex
	count := map[string]int{}
	s.place = nil
	for _, name := range names {
		s.place = append(s.place, hosts.Host{Name: name})
	}
	s.cfg.Dial = func(_ context.Context, h hosts.Host) (Machine, error) {
		mu.Lock()
		defer mu.Unlock()
		count[h.Name]++
		m := &fake{host: h.Name, address: "127.0.0.1", launcher: "127.0.0.1", script: script, procs: map[string]*proc{}, log: new([]string), gone: make(chan struct{})}
		if d := after[h.Name]; d > 0 && count[h.Name] == 1 {
			time.AfterFunc(d, func() { close(m.gone) })
		}
		return m, nil
	}
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(count)
	}
}

// The scheduler of a job over ssh runs beside the launcher unless it is told otherwise, and is
// started again there: no host is connected to for it.
func TestASchedulerOnTheLaunchingMachineIsStartedAgainThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s setup
		s.elastic(t, newFakeScheduler())
		train, starts := obedient(time.Minute), 0
		script := func(p *proc) {
			if p.name == "scheduler" {
				if starts++; starts == 1 {
					p.killed(10 * time.Second)
					return
				}
			}
			train(p)
		}
		dials := s.onHosts(script, nil, "d1", "d2")
		res, err := s.run(t, script)
		if got, want := fmt.Sprint(dials()), fmt.Sprint(map[string]int{"d1": 1, "d2": 1}); err != nil || res.Code != 0 || starts != 2 || got != want {
			t.Errorf("Run: code %d, %v, %d schedulers, connections %s; want 0, 2 and %s", res.Code, err, starts, got, want)
		}
	})
}

// Once the scheduler has ended well nobody joins: a host whose worker was about to be started again
// is left alone.
func TestNoHostIsReachedAgainOnceTheSchedulerHasEnded(t *testing.T) {
	for _, ends := range []time.Duration{20 * time.Second, 30 * time.Second} { // of the scheduler, before or after d2 is reached again
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			train := obedient(time.Minute)
			script := func(p *proc) {
				switch {
				case p.name == "scheduler" || p.name == "server 0":
					p.after(ends, 0)
				case p.name == "worker 1":
					time.Sleep(19500 * time.Millisecond)
					p.exit.Code, p.exit.Err = 255, "connection to d2 lost"
				default:
					train(p)
				}
			}
			dials := s.onHosts(script, map[string]time.Duration{"d2": 19 * time.Second}, "d1", "d2")
			res, err := s.run(t, script)
			want := 1
			if ends > 20*time.Second {
				want = 2
			}
			if n := dials()["d2"]; err != nil || res.Code != 0 || n != want {
				t.Errorf("Run: code %d, %v; d2 was connected to %d times, want %d", res.Code, err, n, want)
			}
		})
	}
}

// The scheduler is told of a worker that fails, sooner than its lease ends; also of one that fails
// on its way out, which may not have come as far as having left.
func TestTheSchedulerIsToldOfAWorkerThatFails(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var s setup
			f := newFakeScheduler()
			s.elastic(t, f)
			s.cfg.Elastic.Rejoin = 0
			if leaving {
				f.leaves(10*time.Second+500*time.Millisecond, 4)
			}
			res, err := s.run(t, func(p *proc) {
				if p.name == "worker 1" {
					p.killed(11 * time.Second)
					return
				}
				obedient(time.Minute)(p)
			})
			if told, want := f.told(4), "signal 9 (killed)"; err != nil || res.Code != 0 || told != want {
				t.Errorf("leaving: %v: code %d, %v; the scheduler was told %q, want %q", leaving, res.Code, err, told, want)
			}
		})
	}
}
