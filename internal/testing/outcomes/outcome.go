package outcomes

import (
	"fmt"
	"hash/fnv"
	"strings"
	"syscall"
	"time"
)

// An Outcome is what one seed leads to.
type Outcome struct {
	Plan *Plan
	// Rests has what was noted at each rest, and the end.
	Rests []string
	// Trace has all that happened, if it was wanted.
	Trace []string
}

// Digest stands for all rests of an outcome. It is short, so that the digests of many seeds are a
// small file: a change that alters one outcome alone goes unseen once in 65,536 times.
func (o *Outcome) Digest() uint16 { return digestOf(o.Rests) }

func digestOf(rests []string) uint16 {
	h := fnv.New64a()
	for _, r := range rests {
		fmt.Fprintln(h, r)
	}
	x := h.Sum64()
	return uint16(x ^ x>>16 ^ x>>32 ^ x>>48)
}

func (o *Outcome) String() string {
	return o.Plan.String() + "\n" + strings.Join(o.Rests, "\n") + "\n"
}

// Play carries out the plan of a seed. Each message between launcher and scheduler takes so long.
func Play(p *Plan, latency time.Duration, cores Cores) *Outcome {
	return play(p, latency, cores, false)
}

// Trace is Play that notes all that happens.
func Trace(p *Plan, latency time.Duration, cores Cores) *Outcome {
	return play(p, latency, cores, true)
}

func play(p *Plan, latency time.Duration, cores Cores, trace bool) *Outcome {
	w := newWorld(p, latency, cores)
	w.tracing = trace
	w.launcher = cores.Launcher(w.job, w.now, w.files)
	for _, a := range w.launcher.Step(w.now, nil) {
		w.act(a)
	}
	if !p.Early {
		w.rest()
		w.note("begun")
	}
	for _, group := range p.Groups {
		if w.over {
			break
		}
		var acts []string
		for _, a := range group {
			w.run(w.now.Add(a.After), func() bool { return w.over })
			if !w.over {
				w.carryOut(a)
				acts = append(acts, a.String())
			}
		}
		w.rest()
		w.note(strings.Join(acts, " + "))
	}
	w.finish()
	return &Outcome{Plan: p, Rests: w.rests, Trace: w.trace}
}

// finish lets a job end that has not: training is over, or it is told to end.
func (w *world) finish() {
	if w.stuck {
		return
	}
	for _, way := range []struct {
		name string
		do   func()
	}{
		{"training ends", w.endTraining},
		{"SIGTERM", func() { w.step(Signalled{Signal: syscall.SIGTERM}) }},
		{"SIGTERM again", func() { w.step(Signalled{Signal: syscall.SIGTERM}) }},
	} {
		if w.over {
			break
		}
		w.happened("%s", way.name)
		way.do()
		w.rest()
		w.note(way.name)
	}
	if !w.over {
		w.rests = append(w.rests, "the job does not end")
		return
	}
	if w.stuck {
		return
	}
	r := w.launcher.Result()
	text := fmt.Sprintf("end: exit code %d, %s", r.Code, r.Phase)
	for _, x := range []string{r.Failure, r.Culprit} {
		if x != "" {
			text += ", " + x
		}
	}
	w.rests = append(w.rests, text)
	w.say("%s", text)
}

// note notes what is there at a rest.
func (w *world) note(after string) {
	if w.stuck {
		return
	}
	text := []string{after + ":"}
	for _, k := range w.commands {
		text = append(text, fmt.Sprintf("[%s: %s]", k.text, k.answer))
	}
	w.commands = nil
	if w.over {
		w.rests = append(w.rests, strings.Join(append(text, "over"), " "))
		return
	}
	var s Status
	if w.link.core != nil {
		s = w.link.core.Status()
		text = append(text, fmt.Sprintf("%s, %d count", s.Phase, s.Count))
	} else {
		text = append(text, "no scheduler")
	}
	text = append(text, w.hostsText(s)...)
	if len(s.Servers) > 0 {
		text = append(text, "servers "+strings.Join(s.Servers, " "))
	}
	if s.Scale != "" {
		text = append(text, "scale "+s.Scale)
	}
	if w.job.Elastic {
		text = append(text, "file "+w.files.text())
	}
	if w.now.Sub(w.active) < quiet {
		text = append(text, "(no rest)")
	}
	w.rests = append(w.rests, strings.Join(text, " "))
	w.say("REST %s", w.rests[len(w.rests)-1])
}

// hostsText says for each host which processes it has, and what the scheduler says of it. A process
// that stands still or has ended has a sign behind its role.
func (w *world) hostsText(s Status) (text []string) {
	on := make(map[string]string)
	counted := make(map[string]map[string]int)
	for _, p := range w.processes {
		name := p.machine.host.name
		if counted[name] == nil {
			counted[name] = make(map[string]int)
		}
		role := p.role
		if p.state != running {
			role += [...]string{"?", "", "†", ""}[p.state]
		}
		counted[name][role]++
	}
	for host, status := range s.Hosts {
		on[host] = " " + status
	}
	for host := range counted {
		t := ""
		for _, role := range sortedKeys(counted[host]) {
			t += fmt.Sprintf(" %s", role)
			if n := counted[host][role]; n > 1 {
				t += fmt.Sprintf("*%d", n)
			}
		}
		on[host] = t + on[host]
	}
	for _, host := range sortedKeys(on) {
		text = append(text, "("+host+":"+on[host]+")")
	}
	return text
}
