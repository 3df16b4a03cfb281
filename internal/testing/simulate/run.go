package simulate

import (
	"fmt"
	"maps"
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

// run runs the job to its end and checks what it has recorded.
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
	sched := j.nodes["scheduler"]
	r.Finished = sched.err == nil && !sched.killed
	j.checkEndings(c, r, lost)
	if k := j.net.Connections(); k > 0 {
		c.fail("%d connections are left", k)
	}
	in := j.checkKeys(c, r, lost)
	if (p.Program == Counts || p.Program == Floats) && r.Finished {
		j.checkUsed(c)
	}
	if (p.Program == Counts || p.Program == Loop) && r.Finished {
		r.Lost, r.Doubled = c.examples(j.ledger.keys, in, p.Examples, p.Epochs)
	}
	r.Gaps = j.ledger.gaps(j.begin, r.Injected)
}

// checkEndings looks for nodes that failed though the job could go on. A worker or a server that
// never counted may come too late.
func (j *job) checkEndings(c *checks, r *Report, lost map[string]bool) {
	noneLeft := j.noneLeft(r, lost)
	for _, n := range j.all {
		excused := n.killed || lost[n.name] || strings.HasPrefix(n.name, "worker") && !n.counted && j.plan.joins(n.name) ||
			strings.HasPrefix(n.name, "server") && strings.HasPrefix(fmt.Sprint(n.err), "server: cluster:")
		if n.err == nil || excused {
			continue
		}
		r.Finished = false
		if !j.plan.Fatal() && !noneLeft {
			c.fail("%s ended with an error though the job could go on: %v", n.name, n.err)
		}
	}
}

// noneLeft says that the job failed for want of workers: all who could have finished had, and then
// the last one was lost. It was killed, or gave up a scheduler that it did not reach.
func (j *job) noneLeft(r *Report, lost map[string]bool) bool {
	if r.Finished || !strings.Contains(fmt.Sprint(j.nodes["scheduler"].err), "no worker is left") {
		return false
	}
	lastLost := false
	for _, n := range j.all {
		if !strings.HasPrefix(n.name, "worker") {
			continue
		}
		if !lost[n.name] && !j.done[n.name] {
			return false
		}
		lastLost = lastLost || lost[n.name] && (n.killed || !j.plan.Journal)
	}
	return lastLost
}

// checkKeys checks the sums and the rounds of all keys, in the order of their names. It returns the
// contributions that are in some sum. What an open round holds is sent again to the server that a
// shard comes to, but not by a worker that is lost.
func (j *job) checkKeys(c *checks, r *Report, lost map[string]bool) (in map[*contribution]bool) {
	serverLost := slices.ContainsFunc(r.Injected, func(f Fault) bool {
		host, _ := j.plan.loses(f)
		return strings.HasPrefix(host, "server")
	})
	serversChange := slices.ContainsFunc(r.Injected, func(f Fault) bool { return f.Kind == AddServer || f.Kind == RemoveServer })
	excuse := func(x *contribution) bool { return serverLost || !r.Finished || serversChange && lost[x.who] }
	in, r.values = map[*contribution]bool{}, map[string][]float32{}
	for _, name := range slices.Sorted(maps.Keys(j.ledger.keys)) {
		list := j.ledger.keys[name]
		c.agree(name, list)
		if j.plan.Program == Floats {
			last, value := newest(list)
			if value != nil {
				r.values[name] = value
			}
			r.Rounds += last + 1
			continue
		}
		for x := range c.sums(name, make([]float32, len(list[0].grad)), list, excuse) {
			in[x] = true
		}
		rounds := c.rounds(name, list)
		if len(rounds) > 0 {
			r.values[name] = rounds[len(rounds)-1].value
		}
		r.Rounds += len(rounds)
	}
	return in
}

// newest is the value of the latest step, of the last one that pulled it.
func newest(list []*contribution) (step int, value []float32) {
	for _, x := range list {
		if x.value != nil && x.step >= step {
			step, value = x.step, x.value
		}
	}
	return step, value
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
