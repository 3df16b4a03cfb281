package page

import (
	"math"
	"strconv"
)

// What browsers get of a search. Texts are those of people and programs: a page shows them as text,
// never as HTML.
//
//	GET /api/search                  SearchState: all that is known now
//	GET /api/search/trial?id=7       SearchDetail: one trial with its reports and decisions
//	GET /api/search/curves?id=1,2,3  SearchCurves: the study's metric of at most 64 trials over their steps
//	GET /api/events                  server-sent events:
//	    state   SearchState, first
//	    update  SearchUpdate, each second: what replaces or extends the SearchState before
//
// The last update, or state, has Over set, and nothing comes after it.
//
// A state of 10,000 trials with 6 parameters has 1 MB, an update 100 bytes for each trial that
// changed and 1 KB.

// Limits of what a search sends.
const (
	maxCurves        = 64
	maxCurvePoints   = 512
	maxDetailReports = 2048
	maxWordBytes     = 320
)

// A SearchState is all that is known of a search.
type SearchState struct {
	SearchUpdate
	Name      string `json:"name"`
	Scheduler string `json:"scheduler"`
	Suggester string `json:"suggester"`

	// States are the words for the states of trials. The column of states has indices into them.
	States []string `json:"states"`

	Params []SearchParam `json:"params"`
}

// A SearchUpdate is what changed. Words, Trials and Progress extend or replace what was there; the
// rest replaces it.
type SearchUpdate struct {
	// Elapsed is how long the study has run, summed over all resumes.
	Elapsed Precise `json:"elapsed_seconds"`

	// Metric is empty if it is not known before the first report.
	Metric string `json:"metric"`

	// Larger says that a larger value is better.
	Larger bool `json:"larger"`

	// Further are objectives and constraints for people, such as " and smallest latency, with
	// memory <= 12".
	Further string `json:"further"`

	// Planned is how many trials there will be; 0: it is not known.
	Planned int `json:"planned"`

	// Parallel is how many may run at once; 0: as many as fit.
	Parallel int `json:"parallel"`

	// Exhausted says that there are no new trials to begin.
	Exhausted bool `json:"exhausted"`

	// Halted is why the study was ended early; empty: it was not.
	Halted string `json:"halted"`

	// Missed says for people what the deadline has kept from being done.
	Missed string `json:"missed"`

	Over bool `json:"over"`

	// Words are the texts that columns have indices of. Those of an update come behind the
	// WordsBefore that the browser has.
	WordsBefore int      `json:"words_before"`
	Words       []string `json:"words"`

	Trials     SearchTrials       `json:"trials"`
	Progress   SearchProgress     `json:"progress"`
	Hosts      []SearchHost       `json:"hosts"`
	Importance []SearchImportance `json:"importance"`
}

// A SearchParam is a parameter of the space.
type SearchParam struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Low and High are bounds of numbers; null: there are none.
	Low  Precise `json:"low"`
	High Precise `json:"high"`
	Log  bool    `json:"log"`
	// Whole says that all numbers are integers.
	Whole bool `json:"whole"`
	// Choices are the values of a parameter whose column has indices of Words, in the order of
	// the space; null for one whose column has numbers.
	Choices []string `json:"choices"`
	// When says under which condition a trial has the parameter; empty: always.
	When string `json:"when"`
}

// SearchTrials are columns of the same length. Those of a state have all trials by number; those of
// an update have the trials of Number.
type SearchTrials struct {
	// Count is the number of all trials.
	Count int `json:"count"`

	// Number is null for all, from 0.
	Number []int `json:"number"`

	// State has a digit for each, its index in States.
	State string `json:"state"`

	// Value is what trials are ranked by.
	Value Precises `json:"value"`

	// Violation is by how much constraints are violated. Trials with more than 0 rank last.
	Violation Precises `json:"violation"`

	BestStep Precises `json:"best_step"`
	Step     Precises `json:"step"`
	Reports  []int    `json:"reports"`
	Attempts []int    `json:"attempts"`

	// Started is on the study's clock.
	Started Precises `json:"started_seconds"`

	Ended   Precises `json:"ended_seconds"`
	Trained Precises `json:"trained_seconds"`

	// Location is an index of Words; -1: there is none.
	Location []int `json:"location"`

	// Replicas is how many an elastic job has; 0: the trial is no elastic job, or has none now.
	Replicas []int `json:"replicas"`

	// Why the trial was stopped: the rule, and the value that was held against a bound at a
	// step; or the class of its failure.
	// Rule is an index of Words; -1: there is none.
	Rule []int `json:"rule"`

	// Failure is an index of Words; -1: there is none.
	Failure []int `json:"failure"`

	StopStep  Precises `json:"stop_step"`
	StopValue Precises `json:"stop_value"`
	StopBound Precises `json:"stop_bound"`

	// Params has a column for each parameter: numbers, or indices of Words; null: the trial
	// does not have it.
	Params []Precises `json:"params"`
}

// SearchProgress are the moments at which the best value so far became better. Those of an update
// come behind Before.
type SearchProgress struct {
	Before int      `json:"before"`
	At     Precises `json:"at_seconds"`
	Value  Precises `json:"value"`
	Trial  []int    `json:"trial"`
}

// A SearchHost is a machine that runs trials. Zero of a kind that it does not count.
type SearchHost struct {
	Name string `json:"name"`

	// Running is the number of trials that run.
	Running int `json:"running"`

	// Slots is 0 if there is no limit.
	Slots int `json:"slots"`

	SlotsUsed int  `json:"slots_used"`
	CPUs      int  `json:"cpus"`
	CPUsUsed  int  `json:"cpus_used"`
	GPUs      int  `json:"gpus"`
	GPUsUsed  int  `json:"gpus_used"`
	Leaving   bool `json:"leaving"`
}

// A SearchImportance is how much a parameter decides whether a trial is good.
type SearchImportance struct {
	Name string `json:"name"`

	// Share is the parameter's part of what all parameters decide together.
	Share Precise `json:"share"`

	Trials int `json:"trials"`
}

// SearchCurves are the study's metric over the steps of trials.
type SearchCurves struct {
	Curves []SearchCurve `json:"curves"`
}

// A SearchCurve is one metric of a trial. A long one is thinned; its best and its last point are
// kept.
type SearchCurve struct {
	Trial  int      `json:"trial"`
	Metric string   `json:"metric"`
	Step   []int    `json:"step"`
	Value  Precises `json:"value"`
	// Forecast is how the trial is predicted to end, where a rule predicts the study's metric.
	Forecast *SearchForecast `json:"forecast,omitempty"`
}

// A SearchForecast is the predicted end of a trial: with a probability of 80 % between Low and
// High.
type SearchForecast struct {
	Step int     `json:"step"`
	Mean Precise `json:"mean"`
	Low  Precise `json:"low"`
	High Precise `json:"high"`
}

// A SearchDetail is all that is known of one trial.
type SearchDetail struct {
	Trial    int             `json:"trial"`
	Name     string          `json:"name"`
	State    string          `json:"state"`
	Origin   string          `json:"origin"`
	Location string          `json:"location"`
	Error    string          `json:"error"`
	Failure  string          `json:"failure"`
	Params   []SearchSetting `json:"params"`
	Metrics  []SearchCurve   `json:"metrics"`
	History  []SearchNote    `json:"history"`
	// Earlier is how many notes are older than History.
	Earlier     int                `json:"earlier"`
	Checkpoints []SearchCheckpoint `json:"checkpoints"`
}

// A SearchSetting is a parameter's value as people read it.
type SearchSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A SearchCheckpoint is one that a trial saved.
type SearchCheckpoint struct {
	Step  int   `json:"step"`
	Bytes int64 `json:"bytes"`
}

// A SearchNote is what happened to a trial. Which fields count depends on its kind.
type SearchNote struct {
	At Precise `json:"at_seconds"`

	// Kind is start, decision, order, end, requeue or replicas.
	Kind string `json:"kind"`

	Attempt  int    `json:"attempt,omitempty"`
	Location string `json:"location,omitempty"`

	// Restore is the step of the checkpoint that a start continues from (-1: none), and Donor is
	// the trial that wrote it.
	Restore int `json:"restore"`
	Donor   int `json:"donor"`

	// These are a decision's, at a step: Value was compared with Bound, and with Competitors.
	Step        int     `json:"step"`
	Value       Precise `json:"value"`
	Bound       Precise `json:"bound"`
	Action      string  `json:"action,omitempty"`
	Rule        string  `json:"rule,omitempty"`
	Competitors []int   `json:"competitors,omitempty"`

	// More is the number of competitors that are not listed.
	More int `json:"more,omitempty"`

	// By is the trial whose report led to an order.
	By int `json:"by"`

	// These are an end's.
	Outcome string `json:"outcome,omitempty"`
	Failure string `json:"failure,omitempty"`
	Error   string `json:"error,omitempty"`
	Retry   bool   `json:"retry,omitempty"`

	// Fresh says that a trial that is queued again starts over.
	Fresh bool `json:"fresh,omitempty"`
}

// preciseDigits is how many digits a float32 has.
const preciseDigits = 7

// A Precise is a value of which people compare more digits than of a Number. Not finite: null in
// JSON.
type Precise float64

// MarshalJSON implements json.Marshaler.
func (x Precise) MarshalJSON() ([]byte, error) { return x.append(nil), nil }

func (x Precise) append(b []byte) []byte {
	v := float64(x)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(b, "null"...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<53:
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', preciseDigits, 64)
}

// Precises are a column.
type Precises []Precise

// MarshalJSON writes an array.
func (c Precises) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 2+9*len(c)), '[')
	for i, x := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = x.append(b)
	}
	return append(b, ']'), nil
}
