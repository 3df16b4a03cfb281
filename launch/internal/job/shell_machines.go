package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
)

// What comes to the loop from machines.
type (
	connectedMachine struct {
		id  int
		m   Machine
		err error
	}
	machineGone    struct{ machine int }
	machinesClosed struct{ err error }
	announcement   struct {
		release func()
		err     error
	}
)

// connect connects to a machine beside the loop.
func (s *shell) connect(a connect) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.cancels[a.id] = cancel
	s.working.Go(func() {
		defer cancel(nil)
		var m Machine
		var err error
		if a.host == nil {
			m, err = s.cfg.Local(ctx)
		} else {
			m, err = s.cfg.Dial(ctx, *a.host)
		}
		if !s.send(connectedMachine{a.id, m, err}) && err == nil {
			m.Close()
		}
	})
}

// machineConnected takes the machine, and tells when its connection is lost.
func (s *shell) machineConnected(e connectedMachine) []event {
	delete(s.cancels, e.id)
	switch {
	case e.err != nil:
		return []event{connected{id: e.id, err: e.err}}
	case s.closing:
		s.working.Go(func() { e.m.Close() })
		return []event{connected{id: e.id, err: errors.New("the job has ended")}}
	}
	s.machines[e.id] = e.m
	if m, ok := e.m.(leaver); ok {
		s.working.Go(func() { s.followNotices(e.id, m) })
	}
	s.working.Go(func() {
		select {
		case <-e.m.Gone():
			s.send(machineGone{e.id})
		case <-s.over:
		}
	})
	return append([]event{connected{id: e.id, address: e.m.Address(), launcher: e.m.LauncherAddress()}}, s.loss(e.id)...)
}

// followNotices hands over what a machine says of its host, until it is gone.
func (s *shell) followNotices(machine int, m leaver) {
	for notices := m.Leaving(); ; {
		select {
		case n := <-notices:
			if !s.send(noticed{machine, n}) {
				return
			}
		case <-m.Gone():
			return
		case <-s.over:
			return
		}
	}
}

// loss is the loss of a machine, if it is lost, and the core does not know yet.
func (s *shell) loss(machine int) []event {
	m := s.machines[machine]
	if m == nil || s.lost[machine] {
		return nil
	}
	select {
	case <-m.Gone():
		s.lost[machine] = true
		return []event{machineLost{machine}}
	default:
		return nil
	}
}

// checkHost finds out whether a host is the launching machine, beside the loop: names are looked
// up.
func (s *shell) checkHost(a checkHost) {
	s.working.Go(func() {
		e := connected{id: a.id}
		if here := s.cfg.Elastic.Here; here != nil && !here(a.host) {
			e.err = fmt.Errorf("launch: host %s is not this machine, where all of this job runs; start the job with -H FILE to have it on several hosts", a.host)
		}
		s.send(e)
	})
}

func (s *shell) closeMachine(a closeMachine) {
	m := s.machines[a.machine]
	delete(s.machines, a.machine)
	delete(s.lost, a.machine)
	s.working.Go(func() {
		err := m.Close()
		if d, ok := m.(Dismisser); ok && a.dismiss {
			d.Dismiss()
		}
		s.send(machineClosed{a.machine, err})
	})
}

// closeAll closes all machines at once.
func (s *shell) closeAll() {
	s.closing = true
	machines := slices.Collect(maps.Values(s.machines))
	s.working.Go(func() {
		var mu sync.Mutex
		var errs []error
		var all sync.WaitGroup
		for _, m := range machines {
			all.Go(func() {
				if err := m.Close(); err != nil {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}
			})
		}
		all.Wait()
		s.send(machinesClosed{errors.Join(errs...)})
	})
}

// machinesClosed tells of every end that is known by now.
func (s *shell) machinesClosed(e machinesClosed) (events []event) {
	s.closeErr = e.err
	for _, number := range sortedKeys(s.processes) {
		p := s.processes[number]
		if p.handle == nil {
			continue
		}
		select {
		case <-p.handle.Done():
			events = append(events, s.processEnded(p)...)
		default:
		}
	}
	return append(events, allClosed{})
}

func (s *shell) chooseAddress(a chooseAddress) {
	scheduler, all := s.machines[a.scheduler], slices.Collect(maps.Values(s.machines))
	s.working.Go(func() {
		address, err := SchedulerAddress(scheduler, all)
		s.send(addressChosen{address, err})
	})
}

// announce tells whoever asked that the scheduler listens.
func (s *shell) announce(a announce) {
	s.address = net.JoinHostPort(a.address, a.port)
	where := Where{Job: s.id, Scheduler: s.address, Credentials: s.controls}
	s.working.Go(func() {
		var e announcement
		if s.cfg.Listening != nil {
			e.release, e.err = s.cfg.Listening(where)
		}
		if !s.send(e) && e.release != nil {
			e.release()
		}
	})
}

// command is how a host is reached, in words.
func (s *shell) command(h hosts.Host) string {
	if s.cfg.Elastic.Command == nil {
		return "on " + h.String()
	}
	return s.cfg.Elastic.Command(h)
}
