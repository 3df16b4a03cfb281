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

// connect connects to a machine beside the loop. A machine that comes when the loop has ended has no
// other owner, and is closed here.
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

// machineConnected takes the machine, and tells when its connection is lost. It may be lost already:
// then the core hears of the loss right behind the connection.
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
	if m := s.machines[machine]; m == nil || s.lost[machine] || !isClosed(m.Gone()) {
		return nil
	}
	s.lost[machine] = true
	return []event{machineLost{machine}}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
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

// closeMachine closes a machine beside the loop. A host that is dismissed hears of it when the
// connection is closed, so that it does not take the loss of the connection for a fault.
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

// closeAll closes all machines at once. A connection that comes later is closed as it comes.
func (s *shell) closeAll() {
	s.closing = true
	machines := slices.Collect(maps.Values(s.machines))
	s.working.Go(func() {
		errs := make([]error, len(machines))
		var all sync.WaitGroup
		for i, m := range machines {
			all.Go(func() { errs[i] = m.Close() })
		}
		all.Wait()
		s.send(machinesClosed{errors.Join(errs...)})
	})
}

// machinesClosed tells of every end that is known by now. A process without one has a host that does
// not answer.
func (s *shell) machinesClosed(e machinesClosed) (events []event) {
	s.closeErr = e.err
	for _, number := range sortedKeys(s.processes) {
		if p := s.processes[number]; p.handle != nil && isClosed(p.handle.Done()) {
			events = append(events, s.processEnded(p)...)
		}
	}
	return append(events, allClosed{})
}

// chooseAddress finds the scheduler's address beside the loop.
func (s *shell) chooseAddress(a chooseAddress) {
	scheduler, all := s.machines[a.scheduler], slices.Collect(maps.Values(s.machines))
	s.working.Go(func() {
		address, err := SchedulerAddress(scheduler, all)
		s.send(addressChosen{address, err})
	})
}

// announce tells whoever asked that the scheduler listens. What they return is called when the job
// has ended, or at once where it has ended meanwhile.
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
