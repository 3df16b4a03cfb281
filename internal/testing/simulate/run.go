package simulate

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A Report is what a run showed.
type Report struct {
	Plan Plan
	// Wrong is what did not hold; empty: all is well.
	Wrong []string
	// Injected are the faults that met something, in their order.
	Injected []Fault
	Gaps     []time.Duration
	// Finished says that all workers of the job ended cleanly.
	Finished bool
	// Rounds is how many rounds of all keys were closed.
	Rounds int
	Took   time.Duration
	// Lost and Doubled count examples of Counts and Loop that were used too seldom, or too often.
	Lost    int
	Doubled int
	Trace   string
	// values are the last values by key.
	values map[string][]float32
}

// limit is how long after the last fault a job may take, beyond what its steps take: longer than
// any wait of the runtime that has an end.
const limit = 3 * time.Minute

// Run carries out a plan. It must be called inside a bubble of testing/synctest.
func Run(p Plan) Report { return newJob(p).run() }

func (j *job) run() Report {
	p := &j.plan
	j.ready.Add(p.Workers)
	begun := time.Now()
	j.startScheduler()
	for rank := range p.Servers {
		j.startServer(rank, false)
	}
	for rank := range p.Workers {
		j.startWorker(rank)
	}
	j.ready.Wait()
	j.mu.Lock()
	if j.begin.IsZero() {
		j.begin = time.Now()
	}
	j.mu.Unlock()

	report := Report{Plan: *p}
	c := &checks{}
	injected := make(chan struct{})
	go func() {
		defer close(injected)
		report.Injected = j.inject()
	}()
	deadline := j.begin.Add(limit)
	for _, f := range p.Faults {
		deadline = deadline.Add(f.For + lease)
	}
	if p.Journal {
		// Nodes wait for ten minutes for a scheduler that may come back.
		deadline = deadline.Add(11 * time.Minute)
	}
	for steps := range max(p.Steps, p.Epochs*(p.Examples/max(p.Batch, 1)+1)) {
		_ = steps
		deadline = deadline.Add(compute + 4*p.Jitter)
	}
	if stuck := j.wait(deadline); len(stuck) > 0 {
		buf := make([]byte, 1<<20)
		c.fail("after %v still there: %s", time.Since(j.begin), strings.Join(stuck, ", "))
		j.say("simulation", "goroutines:\n%s", buf[:runtime.Stack(buf, true)])
	}
	close(j.over)
	<-injected
	j.later.Wait()
	report.Took = time.Since(begun)
	j.calm()
	j.end()
	j.check(c, &report)
	report.Wrong = c.wrong
	j.mu.Lock()
	report.Trace = j.trace.String()
	j.mu.Unlock()
	return report
}

// wait returns when all processes have ended, or at the deadline with the names of those that have
// not.
func (j *job) wait(deadline time.Time) (stuck []string) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for i := 0; ; i++ {
		j.mu.Lock()
		if i == len(j.all) {
			j.mu.Unlock()
			return stuck
		}
		n := j.all[i]
		j.mu.Unlock()
		select {
		case <-n.ended:
		case <-timer.C:
			timer.Reset(0)
			stuck = append(stuck, n.name)
		}
	}
}

// end ends what has not ended.
func (j *job) end() {
	j.mu.Lock()
	all := slices.Clone(j.all)
	j.mu.Unlock()
	for _, n := range all {
		if !ended(n) {
			j.kill(n, false)
		}
	}
	for _, n := range all {
		<-n.ended
	}
}

// check holds the records against what must hold.
func (j *job) check(c *checks, r *Report) {
	p := &j.plan
	lost := p.Lost()
	serverLost := slices.ContainsFunc(r.Injected, func(f Fault) bool {
		host, _ := p.loses(f)
		return strings.HasPrefix(host, "server")
	})
	sched := j.nodes["scheduler"]
	r.Finished = sched.err == nil && !sched.killed
	// All who could have finished, and then the last one was lost: it was killed, or gave up a
	// scheduler that it did not reach.
	left := !r.Finished && strings.Contains(fmt.Sprint(sched.err), "no worker is left") && slices.ContainsFunc(j.all, func(n *node) bool {
		return strings.HasPrefix(n.name, "worker") && lost[n.name] && (n.killed || !p.Journal)
	})
	for _, n := range j.all {
		if strings.HasPrefix(n.name, "worker") && !lost[n.name] && !j.done[n.name] {
			left = false
		}
	}
	for _, n := range j.all {
		// A worker or a server that never counted may come too late.
		excused := n.killed || lost[n.name] || strings.HasPrefix(n.name, "worker") && !n.counted && p.joins(n.name) ||
			strings.HasPrefix(n.name, "server") && strings.HasPrefix(fmt.Sprint(n.err), "server: cluster:")
		if n.err != nil && !excused {
			r.Finished = false
			if !p.Fatal() && !left {
				c.fail("%s ended with an error though the job could go on: %v", n.name, n.err)
			}
		}
	}
	if k := j.net.Connections(); k > 0 {
		c.fail("%d connections are left", k)
	}
	names := make([]string, 0, len(j.ledger.keys))
	for name := range j.ledger.keys {
		names = append(names, name)
	}
	slices.Sort(names)
	// What an open round holds is sent again to the server that a shard comes to, but not by a
	// worker that is lost.
	serversChange := slices.ContainsFunc(r.Injected, func(f Fault) bool { return f.Kind == AddServer || f.Kind == RemoveServer })
	excuse := func(x *contribution) bool { return serverLost || !r.Finished || serversChange && lost[x.who] }
	in, r1 := map[*contribution]bool{}, map[string][]float32{}
	for _, name := range names {
		list := j.ledger.keys[name]
		c.agree(name, list)
		var rounds []*closed
		if p.Program != Floats {
			for x := range c.sums(name, make([]float32, len(list[0].grad)), list, excuse) {
				in[x] = true
			}
			if rounds = c.rounds(name, list); len(rounds) > 0 {
				r1[name] = rounds[len(rounds)-1].value
			}
		} else {
			last := 0
			for _, x := range list {
				if x.value != nil && x.step >= last {
					last, r1[name] = x.step, x.value
				}
			}
			rounds = make([]*closed, last+1)
		}
		r.Rounds += len(rounds)
	}
	r.values = r1
	if (p.Program == Counts || p.Program == Floats) && r.Finished {
		j.checkUsed(c)
	}
	if (p.Program == Counts || p.Program == Loop) && r.Finished {
		r.Lost, r.Doubled = c.examples(j.ledger.keys, in, p.Examples, p.Epochs)
	}
	r.Gaps = j.ledger.gaps(j.begin, r.Injected)
}

// Quiet is the same job without faults.
func (p Plan) Quiet() Plan {
	p.Faults = nil
	return p
}

// Compare checks that a run ended with the parameters of a quiet one, bit for bit, where it must.
func (r *Report) Compare(quiet *Report) {
	if !r.Finished || r.Plan.MembersChange() {
		return
	}
	for name, want := range quiet.values {
		if got := r.values[name]; !slices.Equal(got, want) {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: the last value differs from that of the run without faults: got %v, want %v", name, head(got), head(want)))
		}
	}
	slices.Sort(r.Wrong)
}

func head(v []float32) []float32 { return v[:min(len(v), 6)] }
