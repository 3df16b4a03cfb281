package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/internal/member/control"
	"github.com/paragon-train/paragon/internal/store/transport"
	"github.com/paragon-train/paragon/internal/testing/faultnet"
)

// inject carries out the plan's faults and returns which of them met anything. It ends early with
// the job.
func (j *job) inject() []Fault {
	var done []Fault
	for _, f := range j.plan.Faults {
		select {
		case <-time.After(time.Until(j.begin.Add(f.At))):
		case <-j.over:
			return done
		}
		select {
		case <-j.over:
			// Both were ready at the same moment.
			return done
		default:
		}
		if j.carryOut(f) {
			j.say("FAULT", "%v", f)
			done = append(done, f)
		}
	}
	return done
}

// carryOut carries out a fault. It returns false if there was nothing that the fault could meet.
// Delays of jitter are rules of all links, which Restore of one link leaves alone.
func (j *job) carryOut(f Fault) bool {
	n := j.node(f.A)
	if f.A != "" && f.Kind != Join && (n == nil || ended(n)) {
		return false
	}
	switch f.Kind {
	case KillWorker, KillServer, LoseWorker, LoseServer:
		j.kill(n, f.Kind == LoseWorker || f.Kind == LoseServer)
	case KillScheduler:
		return j.killScheduler(f)
	case Cut:
		j.net.Cut(f.A, f.B)
	case Break:
		j.net.Break(f.A, f.B, f.For)
	case Drop:
		j.net.Drop(f.A, f.B)
		j.after(f, func() { j.net.Restore(f.A, f.B) })
	case Refuse:
		j.net.Refuse(f.A, f.B)
		j.net.Cut(f.A, f.B)
		j.after(f, func() { j.net.Restore(f.A, f.B) })
	case Slow:
		j.slow(f)
	case Join:
		rank, _ := strconv.Atoi(strings.TrimPrefix(f.A, "worker"))
		j.startWorker(rank)
	case Remove:
		go j.control(control.Request{Op: control.OpRemove, Host: f.A}, &control.Done{})
	case Leave:
		return tell(n)
	case AddServer:
		j.later.Go(j.addServer)
	case RemoveServer:
		j.later.Go(func() { j.removeServer(f.A) })
	case Pause:
		n.host.Freeze()
		j.after(f, n.host.Thaw)
	case Partition:
		j.partition(f)
	}
	return true
}

// after calls what when the fault's time has passed, or the job is over.
func (j *job) after(f Fault, what func()) {
	j.later.Go(func() {
		select {
		case <-time.After(f.For):
		case <-j.over:
		}
		what()
	})
}

// killScheduler kills the scheduler, and with a journal starts another one after a time, unless the
// job needs none any more.
func (j *job) killScheduler(f Fault) bool {
	n := j.node("scheduler")
	if ended(n) || j.wasKilled(n) {
		return false
	}
	j.disk.unmount()
	j.kill(n, false)
	if !j.plan.Journal {
		return true
	}
	j.after(f, func() {
		select {
		case <-j.over:
		default:
			<-n.ended
			j.startScheduler()
		}
	})
	return true
}

// slow delays both directions of a link for a time.
func (j *job) slow(f Fault) {
	j.net.Delay(f.A, f.B, 0, 200*time.Millisecond)
	j.net.Delay(f.B, f.A, 0, 200*time.Millisecond)
	j.after(f, func() {
		j.net.Restore(f.A, f.B)
		j.net.Restore(f.B, f.A)
	})
}

// partition cuts the nodes into two halves for a time.
func (j *job) partition(f Fault) {
	links := j.between(j.plan.half())
	for _, l := range links {
		j.net.Drop(l[0], l[1])
	}
	j.after(f, func() {
		for _, l := range links {
			j.net.Restore(l[0], l[1])
		}
	})
}

// tell asks a worker to leave; false: it was told before.
func tell(n *node) bool {
	select {
	case <-n.told:
		return false
	default:
		close(n.told)
		return true
	}
}

// control asks the scheduler something, once, from a host of its own.
func (j *job) control(r control.Request, into control.Answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := control.Ask(ctx, func(ctx context.Context, request []byte) ([]byte, error) {
		answer, err := cluster.Control(ctx, schedulerAddress, transport.Config{Network: j.net.Host("control"), Logger: j.logger("control")}, request)
		j.say("control", "%s: %s, error %v", request, answer, err)
		return answer, err
	}, r, into)
	return err
}

// insist asks the scheduler until it does what is asked, or will not, or the job is over.
func (j *job) insist(r control.Request) (done control.Done, ok bool) {
	for {
		done = control.Done{}
		if err := j.control(r, &done); err == nil || errors.Is(err, control.ErrRefused) && !errors.Is(err, control.ErrLater) {
			return done, err == nil
		}
		select {
		case <-j.over:
			return done, false
		case <-time.After(200 * time.Millisecond):
		}
		if s := j.node("scheduler"); ended(s) && !(j.plan.Journal && j.wasKilled(s)) {
			return done, false
		}
	}
}

func (j *job) wasKilled(n *node) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return n.killed
}

// addServer does what a launcher does that is asked for one more server.
func (j *job) addServer() {
	done, ok := j.insist(control.Request{Op: control.OpAddServer})
	if !ok {
		return
	}
	// The server that had the rank before was removed, and may not have ended.
	if before := j.node(fmt.Sprint("server", done.Rank)); before != nil {
		select {
		case <-before.ended:
		case <-j.over:
			return
		}
	}
	select {
	case <-j.over:
	default:
		j.startServer(int(done.Rank), true)
	}
}

// removeServer asks for the end of a server.
func (j *job) removeServer(name string) {
	rank, _ := strconv.Atoi(strings.TrimPrefix(name, "server"))
	j.insist(control.Request{Op: control.OpRemoveServer, Rank: rank})
}

// between returns the links that lead from the hosts to the others, and back.
func (j *job) between(hosts []string) (links [][2]string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name := range j.nodes {
		if slices.Contains(hosts, name) {
			continue
		}
		for _, h := range hosts {
			links = append(links, [2]string{h, name}, [2]string{name, h})
		}
	}
	slices.SortFunc(links, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	return links
}

func ended(n *node) bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// calm takes all faults back, so that what is left can end.
func (j *job) calm() {
	j.mu.Lock()
	all := slices.Clone(j.all)
	j.mu.Unlock()
	for _, n := range all {
		n.host.Thaw()
	}
	j.net.Heal()
	j.net.Delay(faultnet.Any, faultnet.Any, 0, time.Millisecond)
}
