package job

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/testing/outcomes"
)

// The kinds of acts that the reasons below speak of.
var (
	// scales change the number of workers.
	scales = []string{"scale", "place", "wish"}
	// changes are all that brings hosts or workers, or takes them away.
	changes = append([]string{"add", "remove", "edit add", "edit remove"}, scales...)
	// silences are times in which launcher and scheduler do not hear each other.
	silences = []string{"link cut", "answers lost", "messages repeated", "scheduler stands still", "kill scheduler", "scheduler fails", "scheduler is told to end"}
	// losses end workers, or are about to.
	losses = []string{"kill worker", "worker fails", "worker ends", "worker stands still", "worker is told to end", "host lost", "host lost silently", "notice", "notice withdrawn", "at risk", "crash on", "host refuses", "slow on"}
	// serverLosses end servers.
	serverLosses = []string{"kill server", "server fails", "server stands still", "host lost", "host lost silently", "notice", "notice withdrawn", "at risk"}
)

// A divergence is where the outcome of a seed parts from the recorded one: the acts before that rest,
// and what the rest was and is.
type divergence struct {
	*outcomes.Difference
	acts    []outcomes.Act
	was, is rest
}

// intended are the differences from the recorded outcomes that are meant to be, each with its
// reason. The record is that of the launcher and the scheduler when both decided who is in the job.
// Each says what may differ at the rest where the outcomes part, and what must have happened before
// that rest; what follows later follows from it. The first one that fits counts.
var intended = []outcomes.Intended{
	{Name: "scale is answered at once", Reason: "the scheduler plans a number of workers itself, and does not wait for a launcher that it cannot reach; nothing else differs, also later",
		Explains: func(d *outcomes.Difference) bool {
			return d.WouldAny(outcomes.Rewrites(d.Is, scaleSaid, "ok", "later", "refused"))
		}},
	explain("moment of the end", "a job that ends for the same reason ends some milliseconds earlier or later, before or after the next act", func(p *divergence) bool {
		return p.was.over && p.is.over && !p.was.end && !p.is.end && p.Was[len(p.Was)-1] == p.Is[len(p.Is)-1]
	}),
	explain("lost workers count", "a job whose last workers or servers are lost no longer ends with exit code 0 because one of its workers had ended well before", func(p *divergence) bool {
		return p.was.over && p.is.over && endsWell(p.Was) && !endsWell(p.Is)
	}),
	explain("exit 0 is judged", "whether a worker that ended with code 0 was done the scheduler says, also when it comes back: the job ends well although the scheduler ended first", func(p *divergence) bool {
		return p.was.over && p.is.over && endsWell(p.Is) && (p.has(silences) && p.has([]string{"worker ends"}) || p.finishes())
	}),
	explain("another culprit", "a job that fails in both cases, after several ends at once or without its scheduler, is told by the scheduler's verdict why: another process, and its exit code, may be named", func(p *divergence) bool {
		return p.was.over && p.is.over && p.was.failed(p.Was) && p.is.failed(p.Is) && (len(p.acts) > 1 || p.has(silences) || p.fails())
	}),
	explain("checkpoint before the end", "whether a job that is to stop still writes its checkpoint depends on how long the scheduler cannot be told of a notice, and on the moment of the end", func(p *divergence) bool {
		return p.was.over && p.is.over && (p.has(silences) || p.has([]string{"notice", "notice withdrawn", "at risk", "usr1", "stop"})) && p.stops()
	}),
	explainEnd("no job without a scheduler", "a job whose scheduler has ended for good while it formed ends when one of its processes does, and does not wait for ever", func(p *divergence) bool {
		return p.was.forming
	}),
	explainEnd("losses in a silence", "what ended while launcher and scheduler did not hear each other is judged together when they do: nothing was started again meanwhile, so a job ends that does not survive all of it (--min-workers, --rejoin, the last copy of a shard, a host that is taken away)", func(p *divergence) bool {
		return p.has(silences) && (p.has(losses) || p.has(serverLosses))
	}),
	explainEnd("job of one host", "when no more worker can come for the hosts that were named, those of other hosts have left at once, so the job ends with the worker that is left", func(p *divergence) bool {
		return p.has([]string{"place"}) && p.has(losses) && p.was.scale != "" && !strings.HasSuffix(p.was.scale, "reached")
	}),
	explainEnd("attempts are used up", "one worker that was lost is started again once, and not twice: after the attempts that --rejoin allows the job ends where it may not go on with fewer", func(p *divergence) bool {
		return p.Plan.Job.Rejoin > 0 && p.has(losses) && notEnough.MatchString(p.Is[len(p.Is)-1])
	}),
	explainEnd("stop before a host is taken away", "a server that cannot leave in time, because another one is just being started again, stops the job with a checkpoint before its host is taken away; before, it could be lost with its host", func(p *divergence) bool {
		return p.has([]string{"notice", "notice withdrawn", "at risk"}) && p.has(serverLosses) && p.stops()
	}),
	explainEnd("last worker that is told to end", "the last worker that is told to end ends the job; before, its host could stay one that is being removed for ever", func(p *divergence) bool {
		return p.has([]string{"worker is told to end"}) && strings.Contains(p.was.text, "REMOVAL_QUEUED")
	}),
	explainEnd("server that stands still for its lease", "a server that stands still for nearly as long as its lease is lost, or is not, by some milliseconds, and the only copy of its shards with it", func(p *divergence) bool {
		return p.has([]string{"server stands still"}) && strings.Contains(p.Is[len(p.Is)-1], "no_backup")
	}),
	explainEnd("server that holds the only copy", "a server that was to get copies is added some milliseconds later, so the server that has the only ones may be lost before", func(p *divergence) bool {
		return p.has([]string{"add-server", "remove-server"}) && p.has(serverLosses)
	}),
	explain("host_worker", "after a scale that fell short, or a host that was lost beside one, host_worker has the workers that there are", func(p *divergence) bool {
		return p.same(file) && p.any(scales)
	}),
	explain("job goes on", "a loss that was noticed while the scheduler was away, that fell together with another one, or that only seemed to be one, no longer ends the job", func(p *divergence) bool {
		return p.was.over && !p.is.over && (p.has(losses) || p.has(serverLosses) || p.has(silences))
	}),
	explain("workers come back", "a loss that was noticed while the scheduler was away, that fell together with another one, or whose host came back in time, no longer costs a worker that --rejoin would start again", func(p *divergence) bool {
		return p.is.count > p.was.count && p.was.count >= 0 && p.has(losses)
	}),
	explain("those who were asked for come", "workers of a host that was added, or of a number that was asked for, come although news of them were lost, or others had to leave first", func(p *divergence) bool {
		return p.is.count > p.was.count && p.was.count >= 0 && p.has(changes)
	}),
	explain("scale lets the others go", "when no more worker can come for the hosts that were named, those of other hosts leave at once, as far as --min-workers allows, and not when the next thing happens on a host", func(p *divergence) bool {
		return p.is.count < p.was.count && p.has([]string{"place"}) && p.is.scale != "" && !strings.HasSuffix(p.is.scale, "reached")
	}),
	explain("host is given up", "a host on which a worker cannot be started is given up with all that had not joined from it; before, those that had not registered yet still joined", func(p *divergence) bool {
		return p.has(changes) && p.fewerHosts("FAILED")
	}),
	explain("scale is planned at once", "what happens while launcher and scheduler do not hear each other comes before or after the plan", func(p *divergence) bool {
		return p.has(silences) && p.has(scales)
	}),
	explain("order of requests", "a number of workers is planned when it is asked for, before the next command or loss, and one that is refused cancels nothing", func(p *divergence) bool {
		return p.is.count >= 0 && p.was.count >= 0 && !p.has(silences) && (p.several(changes) || p.has(scales) && p.has(losses))
	}),
	explain("host that is being taken away", "a host is not added while it is being taken away: that is refused at once, and does not fail later", func(p *divergence) bool {
		return p.has([]string{"add", "edit add"}) && p.fewerHosts("REMOVED")
	}),
	explain("nothing starts without the scheduler", "while launcher and scheduler do not hear each other no server or worker is started, stopped or moved, and a notice that was told holds: how the job goes on is decided afterwards", func(p *divergence) bool {
		return p.has(silences) && (p.has(losses) || p.has(serverLosses) || p.has([]string{"add", "remove", "edit add", "edit remove", "add-server", "remove-server"}))
	}),
	explain("server beside a pending restart", "a server that is about to be started again counts on its host when one more is placed, or is given up when it is removed", func(p *divergence) bool {
		return p.has(serverLosses) && p.has([]string{"add-server", "remove-server"})
	}),
	explain("removed host", "a host that was removed, by name or because it was about to be taken away, gets no worker again before it is added, or named for a number of workers", func(p *divergence) bool {
		return p.any([]string{"remove", "edit remove", "notice", "notice withdrawn", "at risk"}) && p.fewerHosts("REMOVED")
	}),
	explain("host that came back", "a host whose workers have come back is in the job already, so that it is added again is refused", func(p *divergence) bool {
		return p.same(addSaid)
	}),
	explain("another free slot", "which start fails first depends on the order in which workers are started, so as many may be on another host", func(p *divergence) bool {
		return p.is.count >= 0 && p.is.count == p.was.count && p.has(scales)
	}),
	explain("server that leaves", "a server that fails while its host is being taken away is removed, as it would have been, and is not started again elsewhere as well; one that is about to be started again moves before", func(p *divergence) bool {
		return p.is.count >= 0 && p.is.count == p.was.count && p.has([]string{"notice", "notice withdrawn", "at risk"}) && p.has(serverLosses)
	}),
	explain("life of a lost worker", "a worker is a failed attempt of --rejoin by how long it lived, to its end, and not by when its loss was noticed; one that ends before it counts is replaced once, and not twice", func(p *divergence) bool {
		return p.is.count < p.was.count && p.Plan.Job.Rejoin > 0 && p.has(losses)
	}),
	explain("server that stands still", "rests come some milliseconds earlier or later, and so a server that stands still for nearly as long as its lease may be declared lost, or one of two starts may fail first", func(p *divergence) bool {
		return p.is.count >= 0 && p.is.count == p.was.count && p.has([]string{"server stands still", "slow on", "worker stands still"})
	}),
}

// explain is an entry of the table about the rest at which the outcomes part. A seed whose recorded
// outcome is not known as text is not explained.
func explain(name, reason string, fits func(p *divergence) bool) outcomes.Intended {
	return outcomes.Intended{Name: name, Reason: reason, Explains: func(d *outcomes.Difference) bool {
		if d.Was == nil {
			return false
		}
		p := newDivergence(d)
		return !p.ends() && !p.hangs() && fits(p)
	}}
}

// explainEnd is an entry about a job that is over where it went on in the record. No other entry
// explains that.
func explainEnd(name, reason string, fits func(p *divergence) bool) outcomes.Intended {
	return outcomes.Intended{Name: name, Reason: reason, Explains: func(d *outcomes.Difference) bool {
		if d.Was == nil {
			return false
		}
		p := newDivergence(d)
		return p.ends() && !p.hangs() && fits(p)
	}}
}

// hangs reports whether the job did not end. No entry explains that.
func (p *divergence) hangs() bool { return !codeSaid.MatchString(p.Is[len(p.Is)-1]) }

// ends reports whether the job is over where it went on before.
func (p *divergence) ends() bool { return p.is.over && !p.was.over }

func newDivergence(d *outcomes.Difference) *divergence {
	i := d.Part()
	return &divergence{Difference: d, acts: d.Acts(), was: readRest(d.Was, i), is: readRest(d.Is, i)}
}

// A rest is what is compared of one rest.
type rest struct {
	text string
	// over says that the job was over, end that the text is that of its end.
	over, end bool
	// forming says that the job had no scheduler.
	forming bool
	// count is how many workers count; -1: the job is over.
	count int
	scale string
	// hosts are the status of each host.
	hosts map[string]string
}

var (
	scaleSaid  = regexp.MustCompile(`\[scale [^\]]*: (ok|refused|later)\]`)
	countSaid  = regexp.MustCompile(`running, (\d+) count`)
	codeSaid   = regexp.MustCompile(`^end: exit code (\d+)`)
	scaleState = regexp.MustCompile(` scale (to \d+: \w+)`)
	notEnough  = regexp.MustCompile(`, (not_replaced|no_worker|too_few|not_closed)`)
	addSaid    = regexp.MustCompile(`\[add [^\]]*: (ok|refused)\]`)
	file       = regexp.MustCompile(` file [^(]*$`)
	hostSaid   = regexp.MustCompile(`\((\w+): [^)]*?([A-Z_]*)\)`)
)

// readRest reads the rest of an index; one that is not there is that of a job that is over.
func readRest(rests []string, i int) rest {
	r := rest{count: -1, hosts: make(map[string]string)}
	if i >= len(rests) {
		r.over = true
		return r
	}
	r.text = rests[i]
	r.end = codeSaid.MatchString(r.text)
	r.over = r.end || strings.HasSuffix(r.text, "over")
	r.forming = strings.Contains(r.text, ": no scheduler")
	if m := countSaid.FindStringSubmatch(r.text); m != nil {
		r.count, _ = strconv.Atoi(m[1])
	}
	if m := scaleState.FindStringSubmatch(r.text); m != nil {
		r.scale = m[1]
	}
	for _, m := range hostSaid.FindAllStringSubmatch(r.text, -1) {
		r.hosts[m[1]] = m[2]
	}
	return r
}

// failed reports whether a job ended with an error.
func (r *rest) failed(rests []string) bool {
	m := codeSaid.FindStringSubmatch(rests[len(rests)-1])
	return m != nil && m[1] != "0" && m[1] != "85"
}

// endsWell reports whether a job ended with exit code 0.
func endsWell(rests []string) bool {
	return strings.HasPrefix(rests[len(rests)-1], "end: exit code 0,")
}

// has reports whether one of the acts is of some kinds.
func (p *divergence) has(kinds []string) bool {
	return slices.ContainsFunc(p.acts, func(a outcomes.Act) bool { return slices.Contains(kinds, a.OfKind()) })
}

// several reports whether two of the acts, or more, are of some kinds.
func (p *divergence) several(kinds []string) bool {
	n := 0
	for _, a := range p.acts {
		if slices.Contains(kinds, a.OfKind()) {
			n++
		}
	}
	return n > 1
}

// any reports whether one of the acts up to here is of some kinds.
func (p *divergence) any(kinds []string) bool {
	return slices.ContainsFunc(p.Plan.Groups, func(group []outcomes.Act) bool {
		return slices.ContainsFunc(group, func(a outcomes.Act) bool { return slices.Contains(kinds, a.OfKind()) })
	})
}

// finishes reports whether training ends in the acts.
func (p *divergence) finishes() bool { return len(p.acts) == 0 || p.has([]string{"training ends"}) }

// fails reports whether the single act makes a process fail.
func (p *divergence) fails() bool { return p.has(losses) || p.has(serverLosses) }

// stops reports whether one of the outcomes ends with a checkpoint, or for want of one.
func (p *divergence) stops() bool {
	return slices.ContainsFunc([]string{p.Was[len(p.Was)-1], p.Is[len(p.Is)-1]}, func(end string) bool {
		return strings.HasSuffix(end, "checkpointed") || strings.HasSuffix(end, "no_checkpoint")
	})
}

// same reports whether all rests are the same but for what a pattern finds.
func (p *divergence) same(but *regexp.Regexp) bool {
	without := func(rests []string) (all []string) {
		for _, r := range rests {
			all = append(all, but.ReplaceAllString(r, ""))
		}
		return all
	}
	return slices.Equal(without(p.Was), without(p.Is))
}

// fewerHosts reports whether a host that was in the job has a status instead.
func (p *divergence) fewerHosts(status string) bool {
	for host, is := range p.is.hosts {
		if is == status && p.was.hosts[host] != status {
			return true
		}
	}
	return false
}
