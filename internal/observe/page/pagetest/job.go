// Package pagetest has a feed of made-up data, for tests of the page in a browser and for work on
// it.
package pagetest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// A Job is a page.Feed of a job in which the last worker is slow. Its time begins at Begin and goes
// on by a second with each Poll.
type Job struct {
	Workers, Servers int
	Begin            time.Time
	// Outage, if not 0, is how many seconds the scheduler answers between outages of ten
	// seconds.
	Outage int
	// Past is how many seconds of curves there are from before Begin.
	Past int
	// Domain stands behind the names of hosts.
	Domain string
	// Gone is how many workers have ended, those of the lowest ranks.
	Gone int

	seconds int
	random  *rand.Rand
	curves  page.Curves
	events  []page.Event
	state   page.State
}

// Page implements page.Feed.
func (j *Job) Page() page.Page {
	return page.Page{Kind: page.KindJob, Command: "./cifar10 --epochs 5 --out <run>", Host: "launcher", Started: j.Begin.UnixMilli()}
}

// Routes implements page.Feed.
func (j *Job) Routes() map[string]http.HandlerFunc { return nil }

// Poll implements page.Feed.
func (j *Job) Poll(context.Context) page.Message {
	first := j.seconds == 0
	if first {
		j.random = rand.New(rand.NewPCG(1, 2))
		for i := -j.Past; i <= 0; i++ {
			j.append(j.point(float64(i)))
		}
	}
	j.seconds++
	if j.gone() {
		return page.NewMessage(page.EventGone, j.absence())
	}
	u := j.update()
	j.events = append(j.events, u.Events...)
	j.append(u.Point)
	j.state = page.State{Update: u, WorkerMembers: j.members("d", 100, j.Workers), ServerMembers: j.members("p", 2, j.Servers), Curves: j.curves, EventList: j.events}
	j.state.Point, j.state.Events = nil, nil
	j.state.Workers.Details = j.details()
	for i := range min(j.Gone, j.Workers) {
		j.state.WorkerMembers.State[i], j.state.WorkerMembers.Rank[i] = "gone", -1
	}
	if first || j.was(j.seconds-1) {
		return page.NewMessage(page.EventState, j.state)
	}
	if j.seconds%10 == 0 {
		u.Workers.Details = j.details()
	}
	return page.NewMessage(page.EventUpdate, u)
}

// Whole implements page.Feed.
func (j *Job) Whole() []page.Message {
	list := []page.Message{page.NewMessage(page.EventState, j.state)}
	if j.gone() {
		list = append(list, page.NewMessage(page.EventGone, j.absence()))
	}
	return list
}

func (j *Job) was(seconds int) bool { return j.Outage > 0 && seconds%(j.Outage+10) > j.Outage }

func (j *Job) gone() bool { return j.was(j.seconds) }

func (j *Job) absence() page.Gone {
	return page.Gone{Since: j.now() - 1000*int64(j.seconds%(j.Outage+10)-j.Outage), Now: j.now(), Newest: j.state.Now, Error: "dial tcp 127.0.0.1:9090: connect: connection refused"}
}

func (j *Job) now() int64 { return j.Begin.UnixMilli() + 1000*int64(j.seconds) }

func (j *Job) members(host string, node, n int) (m page.Members) {
	for i := range n {
		m.Node, m.Rank, m.Host = append(m.Node, uint64(node+i)), append(m.Rank, int32(i)), append(m.Host, fmt.Sprintf("%s%d%s", host, i, j.Domain))
		m.PID, m.State = append(m.PID, uint32(4000+i)), append(m.State, "counts")
	}
	return m
}

func (j *Job) noise(x, share float64) page.Number {
	return page.Number(x * (1 + share*j.random.NormFloat64()))
}

const stepTime = 0.1 // seconds

// slow reports whether a worker makes the others wait.
func (j *Job) slow(i int) bool { return i == j.Workers-1 && j.Workers > 1 }

func (j *Job) loss(seconds float64) page.Number {
	return j.noise(2.3*math.Exp(-(seconds+600)/300)+.05, .04)
}

func (j *Job) point(seconds float64) *page.Point {
	p := &page.Point{Time: j.Begin.UnixMilli() + int64(1000*seconds), Values: map[string]page.Number{
		page.LineLoss: j.loss(seconds), page.LineLearningRate: page.Number(.1 * (.5 + .5*math.Cos((seconds+600)/1000))), page.LineExamples: j.noise(640*float64(j.Workers), .02),
		page.LineStepTime: j.noise(stepTime, .03), page.LineCompute: j.noise(.07, .03), page.LineWait: j.noise(.025, .1), page.LineData: j.noise(.002, .3), page.LineGradientNorm: j.noise(1, .2),
	}}
	if int(seconds)%60 == 0 {
		p.Values[page.LineTestAccuracy] = page.Number(1 - .9*math.Exp(-(seconds+600)/400))
		p.Values[page.LineTestLoss] = page.Number(2.4*math.Exp(-(seconds+600)/350) + .1)
		p.Values[page.LineTestScore+"/top5"] = page.Number(1 - .6*math.Exp(-(seconds+600)/300))
	}
	for i := range min(8, j.Servers) {
		p.Values[fmt.Sprintf("%s/%d", page.LineSent, i)] = j.noise(3e7, .05)
		p.Values[fmt.Sprintf("%s/%d", page.LineReceived, i)] = j.noise(3.1e7, .05)
	}
	return p
}

func (j *Job) append(p *page.Point) {
	c := &j.curves
	c.Times = append(c.Times, p.Time)
	for _, id := range slices.Sorted(maps.Keys(p.Values)) {
		if !contains(c.Lines, id) {
			c.Lines = append(c.Lines, page.Line{ID: id})
		}
	}
	for i := range c.Lines {
		l := &c.Lines[i]
		for len(l.Values) < len(c.Times)-1 {
			l.Values = append(l.Values, page.Number(math.NaN()))
		}
		v, ok := p.Values[l.ID]
		if !ok {
			v = page.Number(math.NaN())
		}
		l.Values = append(l.Values, v)
	}
}

func contains(lines []page.Line, id string) bool {
	for _, l := range lines {
		if l.ID == id {
			return true
		}
	}
	return false
}

// update has the newest values, with some noise.
func (j *Job) update() page.Update {
	t := float64(j.seconds)
	step := page.Number(math.Floor((t + 600) / stepTime))
	p := j.point(t)
	u := page.Update{Name: "3f2a9c0d11aa22bb", Now: j.now(), Since: j.Begin.Add(-10 * time.Minute).UnixMilli(), Incarnation: 7, Generation: 3, Phase: "running", Point: p, Slow: []page.Slow{}, Waits: []page.Wait{}, Behind: []string{},
		Job: page.Totals{Workers: j.Workers, Servers: j.Servers, Step: step, Epoch: page.Number(1 + int(t+600)/300), StepsASecond: j.noise(1/stepTime, .01), ExamplesASecond: p.Values[page.LineExamples],
			GlobalBatch: page.Number(64 * j.Workers), Loss: p.Values[page.LineLoss], LearningRate: p.Values[page.LineLearningRate], TestLoss: .31, TestAccuracy: .912, Checkpoints: page.Number(int(t+600) / 120),
			CheckpointAge: page.Number(int(t) % 120), CheckpointTook: .84, Changes: page.Changes{Joined: 1, Lost: 1}}}
	w := &u.Workers
	for i := range j.Workers {
		compute, last, gap := .07, .05/float64(max(1, j.Workers-1)), .002
		if j.slow(i) {
			compute, last, gap = .093, .95, .023
		}
		add := func(to *page.Numbers, x page.Number) { *to = append(*to, x) }
		add(&w.Age, j.noise(.5, .1))
		add(&w.Step, step-page.Number(i%2))
		add(&w.Epoch, u.Job.Epoch)
		add(&w.Loss, j.loss(t))
		add(&w.Examples, j.noise(640, .01))
		add(&w.StepTime, j.noise(stepTime, .02))
		add(&w.Compute, j.noise(compute, .02))
		add(&w.Wait, j.noise(.095-compute, .1))
		add(&w.Data, j.noise(.002, .3))
		add(&w.Last, j.noise(last, .1))
		add(&w.Gap, j.noise(gap, .1))
		add(&w.Sent, j.noise(1e7, .02))
		add(&w.Received, j.noise(1e7, .02))
	}
	v := &u.Servers
	for range j.Servers {
		add := func(to *page.Numbers, x page.Number) { *to = append(*to, x) }
		add(&v.Age, j.noise(.5, .1))
		add(&v.Rounds, j.noise(400, .02))
		add(&v.RoundTime, j.noise(.021, .05))
		add(&v.Waiting, page.Number(j.random.IntN(9)))
		add(&v.Held, page.Number(j.random.IntN(4<<20)))
		add(&v.Values, 22<<20)
		add(&v.Sent, j.noise(3e7, .02))
		add(&v.Received, j.noise(3.1e7, .02))
		add(&v.Memory, 312<<20)
		add(&v.CPU, j.noise(.6, .1))
	}
	if j.Workers > 1 {
		j.addSlow(&u)
	}
	for i := range min(j.Workers, 32) {
		k := i
		if i == 31 {
			k = j.Workers - 1
		}
		u.Steps = append(u.Steps, j.timeline(k, uint64(step)))
	}
	if j.seconds%15 == 2 {
		n := uint64(len(j.events) + 1)
		u.Events = append(u.Events, page.Event{Number: n, Time: u.Now, Action: "LOST", Text: fmt.Sprintf("LOST worker 2 on <b>d2</b> lost: signal 9 (killed) (last step %d)", uint64(step))})
	}
	return u
}

// addSlow makes the last worker one that the others wait for.
func (j *Job) addSlow(u *page.Update) {
	i := j.Workers - 1
	u.Slow = append(u.Slow, page.Slow{Node: uint64(100 + i), Rank: int32(i), Host: fmt.Sprintf("d%d", i), Share: .95, Gap: .023, Cause: "compute",
		Text: fmt.Sprintf("worker %d on d%d is slow: last in 95 %% of the last 310 rounds, 23 ms after the others (23 %% of a step); its compute takes 1.33 times the others'", i, i)})
	for k := range min(i, 50) {
		u.Waits = append(u.Waits, page.Wait{Who: fmt.Sprintf("worker %d", k), At: "key fc1.weight round 6012", For: fmt.Sprintf("worker %d", i), Seconds: j.noise(.02, .1)})
	}
	u.MoreWaits = max(0, i-50)
}

// timeline has the last steps of worker i, up to step.
func (j *Job) timeline(i int, step uint64) page.Timeline {
	t := page.Timeline{Node: uint64(100 + i), Rank: int32(i)}
	for k := range 20 {
		compute := .07
		if j.slow(i) {
			compute = .093
		}
		back := float64(20-k)*stepTime - float64(i%7)*.002
		t.Step, t.End = append(t.Step, step-19+uint64(k)), append(t.End, int64(-1e6*back))
		t.Total, t.Compute = append(t.Total, stepTime), append(t.Compute, j.noise(compute, .01))
		t.Wait, t.Data, t.Save = append(t.Wait, j.noise(.095-compute, .05)), append(t.Data, j.noise(.001, .3)), append(t.Save, 0)
	}
	return t
}

func (j *Job) details() *page.WorkerDetails {
	d := &page.WorkerDetails{GPUs: []page.GPU{}}
	for i := range j.Workers {
		d.Memory, d.CPU, d.GradientNorm = append(d.Memory, page.Number(800<<20+i<<12)), append(d.CPU, j.noise(1.2, .05)), append(d.GradientNorm, j.noise(1, .1))
		d.Staleness, d.StalenessMax = append(d.Staleness, 0), append(d.StalenessMax, 0)
		if i%2 == 0 && i < 64 {
			d.GPUs = append(d.GPUs, page.GPU{Worker: i, MemoryUsed: 60 << 30, MemoryTotal: 139 << 30, Load: j.noise(.9, .05), Temperature: j.noise(61, .02), Power: j.noise(480, .05)})
		}
	}
	return d
}
