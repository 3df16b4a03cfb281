package schedule

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/paragon-train/paragon/tune"
)

// PBT is population-based training (Jaderberg et al. 2017): at every interval the worst trials
// continue from the checkpoints of the best ones, with slightly changed parameters.
//
// Trials must save a checkpoint before each report at which they may be copied; a trial without one
// is no donor. Trials run until they return. With fewer slots than trials, a trial frees its slot
// at its interval, and the trial that has trained least runs next. The Suggester only proposes the
// initial population.
type PBT struct {
	// Population is how many trials there are. Zero is all that the study starts; then a trial
	// may be paused at its first check until it is known that no more will start. A study
	// without a limit must set it.
	Population int
	// Interval between two checks of a trial, in steps (seconds of training, with BySeconds).
	// Zero is 1 (60).
	Interval float64
	// BurnIn is the step (or second) of the first check.
	BurnIn float64
	// BySeconds measures Interval and BurnIn in seconds of the trial's training time, as in the
	// log.
	BySeconds bool
	// Quantile is the share of the population that is replaced, and the share that is copied.
	// Zero is 0.25, at most 0.5.
	Quantile float64
	// Explore says how parameters change.
	Explore Explore
	// Synchronous makes all trials wait for each other at each interval before any exploits.
	// Otherwise each trial is checked when it reports.
	Synchronous bool

	trials map[int]*member
	// next is the time of the next look at all trials, if they wait for each other.
	next float64
	log  []Exploit
}

// A member is what PBT remembers of a trial.
type member struct {
	score  float64
	scored bool
	// last is the time at which the trial was last compared with the others.
	last float64
	// time is how long it has trained, in the unit of Interval.
	time float64
	// waits says that the trial is paused until all have come, where they wait for each other.
	waits bool
	// released says that the round that the trial waited for is over.
	released bool
}

// An Exploit is one entry of the log: Trial, at its own Step, continued from Donor's checkpoint of
// DonorStep.
type Exploit struct {
	Trial     int         `json:"trial"`
	Donor     int         `json:"donor"`
	Step      int         `json:"step"`
	DonorStep int         `json:"donor_step"`
	Before    tune.Params `json:"before"`
	After     tune.Params `json:"after"`
}

// Validate says what is wrong with the fields.
func (p *PBT) Validate() error {
	if p.Population < 0 || p.Interval < 0 || p.BurnIn < 0 || p.Quantile < 0 || p.Quantile > 0.5 {
		return fmt.Errorf("schedule: PBT: Population %d, Interval %v, BurnIn %v, Quantile %v: want 0 or more, the last at most 0.5", p.Population, p.Interval, p.BurnIn, p.Quantile)
	}
	return p.Explore.validate()
}

// Log has all exploits so far, in order.
func (p *PBT) Log() []Exploit { return slices.Clone(p.log) }

// interval is Interval, or its default.
func (p *PBT) interval() float64 {
	switch {
	case p.Interval > 0:
		return p.Interval
	case p.BySeconds:
		return 60
	}
	return 1
}

// quantileSize is how many of n trials are the worst, and how many the best.
func quantileSize(n int, part float64) int {
	if n <= 1 {
		return 0
	}
	if part == 0 {
		part = 0.25
	}
	q := int(math.Ceil(float64(n)*part - 1e-9))
	if q > n/2 {
		q = n / 2
	}
	return q
}

// clock is a trial's time at a report.
func (p *PBT) clock(r tune.Report) float64 {
	if p.BySeconds {
		return r.Elapsed.Seconds()
	}
	return float64(r.Step)
}

// member is what is remembered of a trial.
func (p *PBT) member(trial int) *member {
	if p.trials == nil {
		p.trials = make(map[int]*member)
	}
	m := p.trials[trial]
	if m == nil {
		m = &member{}
		p.trials[trial] = m
	}
	return m
}

// quantiles are the worst and the best of the trials that are alive and have a score, by score.
func (p *PBT) quantiles(v tune.View) (lower, upper []int) {
	var alive []int
	for n, m := range p.trials {
		if m.scored && !v.Trial(n).State.Final() {
			alive = append(alive, n)
		}
	}
	slices.SortFunc(alive, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.trials[a].score, p.trials[b].score), cmp.Compare(a, b))
	})
	q := quantileSize(len(alive), p.Quantile)
	return alive[:q], alive[len(alive)-q:]
}

// Started implements tune.Scheduler.
func (p *PBT) Started(v tune.View, trial int) {
	m := p.member(trial)
	// Next chose the trial, since the round ended without a report.
	if p.Synchronous && m.waits && !m.released {
		p.release(v)
	}
	m.waits, m.released = false, false
}

// Ended implements tune.Scheduler.
func (p *PBT) Ended(_ tune.View, trial int) { p.member(trial).waits = false }

// Reported implements tune.Scheduler.
func (p *PBT) Reported(v tune.View, trial int, rng *rand.Rand) tune.Decision {
	if err := p.Validate(); err != nil {
		return invalid(err)
	}
	last, ok := v.Trial(trial).Last()
	if !ok {
		return tune.Go()
	}
	m := p.member(trial)
	m.time = p.clock(last)
	if m.time < p.BurnIn {
		return tune.Go()
	}
	if p.Synchronous {
		return p.synchronous(v, trial, m, last, rng)
	}
	if m.time-m.last < p.interval() {
		return tune.Go()
	}
	m.score, m.scored, m.last = v.Score(last.Value), true, m.time
	lower, upper := p.quantiles(v)
	d := explain(tune.Continue, "pbt: goes on", last.Value)
	d.Competitors = upper[:min(len(upper), maxCompetitors)]
	if len(upper) > 0 {
		d.Cutoff = v.Score(p.trials[lower[len(lower)-1]].score)
	}
	switch {
	case slices.Contains(lower, trial):
		p.exploit(v, trial, m, upper, &d, rng)
	case slices.Contains(upper, trial):
		d.Rule = "pbt: among the best"
	}
	if d.Action == tune.Continue && p.othersWait(v) {
		d.Action, d.Rule = tune.Pause, d.Rule+", gives up its slot"
	}
	return d
}

// exploit makes d the order to go on from one of the best.
func (p *PBT) exploit(v tune.View, trial int, m *member, upper []int, d *tune.Decision, rng *rand.Rand) {
	donor := upper[rng.IntN(len(upper))]
	o := v.Trial(donor)
	if len(o.Checkpoints) == 0 {
		d.Rule = fmt.Sprintf("pbt: among the worst, but trial %d has no checkpoint to go on from", donor)
		return
	}
	params, how, err := p.Explore.From(v.Space(), o.Params, v.Fixed(trial), rng)
	if err != nil {
		d.Rule = fmt.Sprintf("pbt: among the worst; parameters of trial %d: %v", donor, err)
		return
	}
	d.Action, d.Donor, d.Params = tune.Exploit, donor, params
	d.Rule = fmt.Sprintf("pbt: among the worst, goes on from trial %d with %s", donor, how)
	m.last = p.trials[donor].last
	t := v.Trial(trial)
	at, _ := t.LastStep()
	p.log = append(p.log, Exploit{trial, donor, at, o.Checkpoints[len(o.Checkpoints)-1].Step, t.Params, params})
}

// othersWait says whether a trial waits for a slot. One that is pending does not: it has just left
// its own.
func (p *PBT) othersWait(v tune.View) bool { return v.Count(tune.Paused) > 0 || p.moreToCome(v) }

// moreToCome says whether there will be new trials.
func (p *PBT) moreToCome(v tune.View) bool {
	return !v.Exhausted() && (p.Population == 0 || v.Len() < p.Population)
}

// Next implements tune.Scheduler: new trials first, then the paused one that has trained least.
func (p *PBT) Next(v tune.View) tune.TrialChoice {
	if p.moreToCome(v) {
		return tune.TrialChoice{}
	}
	if p.Synchronous {
		return p.nextSynchronous(v)
	}
	best := -1
	for n, m := range p.trials {
		if v.Trial(n).State != tune.Paused {
			continue
		}
		if best < 0 || m.time < p.trials[best].time || m.time == p.trials[best].time && n < best {
			best = n
		}
	}
	if best < 0 {
		return tune.TrialChoice{Kind: tune.ChooseNone}
	}
	return tune.TrialChoice{Kind: tune.ChoosePaused, Trial: best, Rule: "pbt: has trained least"}
}
