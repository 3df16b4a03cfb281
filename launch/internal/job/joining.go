package job

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/observe/joblog"
)

// A joiningHost is a host on which workers are being started that will join the job: it is reached
// and prepared, then its workers are started.
type joiningHost struct {
	host        hosts.Host
	workers     int // to be started
	attempt     int // from 1 on where there were such workers before, else 0
	machine     *machine
	preparation *Node  // the command that prepares the host; nil: it has none
	prepared    bool   // workers of the job run there already
	cancelled   string // why the work ends; empty: it does not
	dropped     bool   // its workers are not wanted any more
	launching   int    // workers that are being started
}

// prepares reports whether the host's preparation runs.
func (j *joiningHost) prepares() bool { return j.preparation != nil && !j.preparation.ended }

// join starts workers on a host, which join the job.
func (c *core) join(j *joiningHost) {
	c.joining = append(c.joining, j)
	limit := c.set.JoinTimeout
	// The scheduler, too, gives the host up after that time, and would know less to say about
	// it.
	c.after(limit-min(limit/20, time.Second), joinLimit{j})
	c.reach(j.host, j)
}

// joinLimit ends what takes too long.
type joinLimit struct{ host *joiningHost }

func (l joinLimit) run(c *core) {
	if slices.Contains(c.joining, l.host) {
		c.cancelJoin(l.host, fmt.Sprintf("gave up after %s (--join-timeout)", c.set.JoinTimeout))
	}
}

// cancelJoining ends the work that starts workers on a host.
func (c *core) cancelJoining(h hosts.Host, why string) {
	for _, j := range slices.Clone(c.joining) {
		if j.host.Same(h) {
			c.cancelJoin(j, why)
		}
	}
}

func (c *core) cancelJoin(j *joiningHost, why string) {
	for _, id := range sortedKeys(c.connections) {
		if c.connections[id].goal == any(j) {
			c.do(cancelCall{id, why})
		}
	}
	for _, process := range sortedKeys(c.launching) {
		if c.launching[process].goal == any(j) {
			c.do(cancelStart{process, why})
		}
	}
	c.stopPreparation(j, why)
	if j.cancelled == "" {
		j.cancelled = why
	}
}

func (c *core) joiningHostReached(j *joiningHost, m *machine, fresh bool, err error) {
	if j.machine = m; err != nil || j.cancelled != "" || c.unwanted(j) || !c.set.Prepare || (j.attempt > 0 || j.prepared) && !fresh {
		c.joiningHostReady(j, err)
		return
	}
	n := c.newNode(rolePrepare, 0, j.host)
	n.machine, n.goal = m, j
	j.preparation = n
	c.startNode(n)
}

// preparationStarted ends a preparation that is no longer wanted.
func (c *core) preparationStarted(n *Node) {
	if j := n.goal.(*joiningHost); j.cancelled != "" && c.stage < closing {
		c.terminate(n)
	}
}

// stopPreparation ends the command that prepares a host.
func (c *core) stopPreparation(j *joiningHost, why string) {
	if !j.prepares() || j.cancelled != "" {
		return
	}
	if j.cancelled = why; j.preparation.PID != 0 { // else it is being started, and that is given up
		c.terminate(j.preparation)
	}
}

// terminate sends a preparation SIGTERM, later SIGKILL, and in the end gives it up, also when the
// job no longer changes.
func (c *core) terminate(n *Node) {
	c.signal(n, syscall.SIGTERM)
	c.addTimer(c.set.StopTimeout, kill{n}, true)
	c.addTimer(2*c.set.StopTimeout+killTime, unstoppable{n}, true)
}

type unstoppable struct{ preparation *Node }

func (u unstoppable) run(c *core) {
	if !u.preparation.ended {
		c.preparationOver(u.preparation, errors.New("prepare-data: cannot be stopped"))
	}
}

// preparationEnded goes on when the command that prepares a host has ended.
func (c *core) preparationEnded(n *Node) {
	j, err := n.goal.(*joiningHost), error(nil)
	switch {
	case j.cancelled != "":
		err = fmt.Errorf("prepare-data: %s", j.cancelled)
	case !n.Exit.OK():
		text := fmt.Sprintf("prepare-data: %s", n.Exit)
		if last := cut(n.Last, 300); last != "" {
			text += ": " + last
		}
		err = errors.New(text)
	}
	c.preparationOver(n, err)
}

func (c *core) preparationOver(n *Node, err error) {
	n.ended = true
	c.joiningHostReady(n.goal.(*joiningHost), err)
}

// unwanted reports whether workers on a host could not join any more.
func (c *core) unwanted(j *joiningHost) bool {
	return c.stage != running || c.done || c.checkpoint.requested() || c.host(j.host).leaving
}

// joiningHostReady starts the workers on a host, unless err says why it is not ready for them.
func (c *core) joiningHostReady(j *joiningHost, err error) {
	switch {
	case err != nil:
	case j.cancelled != "":
		err = errors.New(j.cancelled)
	case j.machine != nil && j.machine.closing:
		err = fmt.Errorf("connection to %s lost", j.host)
	}
	if err == nil && !c.unwanted(j) {
		c.startWorkers(j)
		return
	}
	c.dropJoining(j)
	switch {
	case c.unwanted(j) || j.dropped:
	case j.attempt > 0:
		c.joinAgain(j.host, j.attempt+1, err, false)
	default:
		c.hostFailed(j.host, err)
	}
	c.release(j.host)
}

func (c *core) dropJoining(j *joiningHost) {
	c.joining = slices.DeleteFunc(c.joining, func(o *joiningHost) bool { return o == j })
}

func (c *core) startWorkers(j *joiningHost) {
	j.launching = j.workers
	for range j.workers {
		c.do(announceWorker{j.host})
		n := c.newNode(roleWorker, c.workers, j.host)
		c.workers++
		n.machine, n.joining, n.attempt, n.goal = j.machine, true, j.attempt, j
		c.startNode(n)
	}
}

// workerLaunched takes note of a worker of a joining host that was started, or could not be.
func (c *core) workerLaunched(j *joiningHost, err error) {
	if j.launching--; j.launching == 0 {
		c.dropJoining(j)
	}
	if err != nil {
		if !c.unwanted(j) {
			c.hostFailed(j.host, err)
		}
		c.release(j.host)
	}
}

// joinAgain starts another worker on a host where one has ended, because of why, or could not be
// started. After the last attempt the host has failed, unless the worker had joined.
func (c *core) joinAgain(h hosts.Host, attempt int, why error, joined bool) {
	s := c.host(h)
	if s.leaving || c.done || c.checkpoint.requested() || c.stage != running {
		return
	}
	if attempt > c.set.Rejoin {
		if joined {
			c.startsMissing(h, plainText(why))
		} else {
			c.hostFailed(h, why)
		}
		return
	}
	wait := backOff(attempt)
	c.info(fmt.Sprintf("starting a worker on %s again in %s (attempt %d of %d)", h, wait, attempt, c.set.Rejoin),
		joblog.ProcessRestarting.Of(joblog.Node{Role: roleWorker, Rank: -1, Host: h.Name}, "attempt", attempt, "wait", wait))
	s.restarts++
	c.after(wait, workerRestart{h, attempt, s.edition})
}

// workerRestart is the next attempt of joinAgain.
type workerRestart struct {
	host    hosts.Host
	attempt int
	edition int
}

func (r workerRestart) run(c *core) {
	s := c.host(r.host)
	if s.edition != r.edition {
		return
	}
	if s.restarts--; !c.done {
		c.join(&joiningHost{host: r.host, workers: 1, attempt: r.attempt})
	}
}
