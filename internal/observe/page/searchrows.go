package page

import (
	"math"
	"strings"
	"unicode/utf8"
)

// A SearchRow is a trial as its search tells the page about it.
type SearchRow struct {
	Number int

	// State is the index of the trial's state in the list of states.
	State int

	// Value is what the trial is ranked by; NaN: there is none yet.
	Value float64

	// Violation is above 0 if the trial violates constraints; NaN: no value yet.
	Violation float64
	// BestStep and Step are -1 without a report.
	BestStep, Step, Reports, Attempts int

	// Started, Ended and Trained are in seconds. Ended is 0 until it has.
	Started, Ended, Trained float64

	Location, Rule, Failure string
	Replicas                int

	// StopStep is -1 if it was not stopped by a decision.
	StopStep int

	StopValue, StopBound float64
	// Params are float64, int64, bool, string or nil (the trial does not have it), by
	// parameter.
	Params []any
}

// rows are all trials, in columns. They are not safe for concurrent use.
type rows struct {
	params []SearchParam

	// trials has nil for Number, which is all of them.
	trials SearchTrials

	state []byte
	words []string
	index map[string]int
}

func newRows(params []SearchParam) *rows {
	r := &rows{params: params, index: make(map[string]int)}
	r.trials.Params = make([]Precises, len(params))
	for i := range params {
		for _, c := range params[i].Choices {
			r.word(c)
		}
	}
	return r
}

// word is the index of a text, -1 of none.
func (r *rows) word(text string) int {
	if text == "" {
		return -1
	}
	if i, ok := r.index[text]; ok {
		return i
	}
	r.index[text] = len(r.words)
	r.words = append(r.words, Clip(text, maxWordBytes))
	return r.index[text]
}

// Clip shortens a text to n bytes and a mark, and makes it valid UTF-8.
func Clip(text string, n int) string {
	if len(text) > n {
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + "…"
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// put adds or replaces a trial. Trials come in the order of their numbers at first.
func (r *rows) put(x SearchRow) {
	t := &r.trials
	for t.Count <= x.Number {
		r.grow()
	}
	i := x.Number
	r.state[i] = '0' + byte(x.State)
	t.Value[i], t.Violation[i], t.BestStep[i], t.Step[i] = Precise(x.Value), Precise(x.Violation), step(x.BestStep), step(x.Step)
	t.Reports[i], t.Attempts[i], t.Replicas[i] = x.Reports, x.Attempts, x.Replicas
	t.Started[i], t.Ended[i], t.Trained[i] = Precise(x.Started), Precise(x.Ended), Precise(x.Trained)
	if x.Ended == 0 {
		t.Ended[i] = unknown
	}
	t.Location[i], t.Rule[i], t.Failure[i] = r.word(x.Location), r.word(x.Rule), r.word(x.Failure)
	t.StopStep[i], t.StopValue[i], t.StopBound[i] = step(x.StopStep), Precise(x.StopValue), Precise(x.StopBound)
	for p := range r.params {
		t.Params[p][i] = unknown
		if p < len(x.Params) {
			t.Params[p][i] = r.param(p, x.Params[p])
		}
	}
}

var unknown = Precise(math.NaN())

func step(n int) Precise {
	if n < 0 {
		return unknown
	}
	return Precise(n)
}

// param is a parameter's value in its column.
func (r *rows) param(p int, value any) Precise {
	if value == nil {
		return unknown
	}
	if r.params[p].Choices != nil {
		return Precise(r.word(SearchText(value)))
	}
	switch x := value.(type) {
	case float64:
		return Precise(x)
	case int64:
		return Precise(x)
	}
	return unknown
}

// grow adds an empty trial.
func (r *rows) grow() {
	t := &r.trials
	t.Count++
	r.state = append(r.state, '0')
	for _, c := range []*Precises{&t.Value, &t.Violation, &t.BestStep, &t.Step, &t.Started, &t.Ended, &t.Trained, &t.StopStep, &t.StopValue, &t.StopBound} {
		*c = append(*c, unknown)
	}
	for _, c := range []*[]int{&t.Reports, &t.Attempts, &t.Replicas} {
		*c = append(*c, 0)
	}
	for _, c := range []*[]int{&t.Location, &t.Rule, &t.Failure} {
		*c = append(*c, -1)
	}
	for p := range t.Params {
		t.Params[p] = append(t.Params[p], unknown)
	}
}

// all returns every trial. Its columns are those of r: encode them before the next put.
func (r *rows) all() SearchTrials {
	t := r.trials
	t.State = string(r.state)
	return t
}

// some are the trials of these numbers.
func (r *rows) some(numbers []int) SearchTrials {
	t := &r.trials
	s := SearchTrials{Count: t.Count, Number: numbers}
	state := make([]byte, len(numbers))
	for i, n := range numbers {
		state[i] = r.state[n]
	}
	s.State = string(state)
	s.Value, s.Violation, s.BestStep, s.Step = pick(t.Value, numbers), pick(t.Violation, numbers), pick(t.BestStep, numbers), pick(t.Step, numbers)
	s.Reports, s.Attempts, s.Replicas = pick(t.Reports, numbers), pick(t.Attempts, numbers), pick(t.Replicas, numbers)
	s.Started, s.Ended, s.Trained = pick(t.Started, numbers), pick(t.Ended, numbers), pick(t.Trained, numbers)
	s.Location, s.Rule, s.Failure = pick(t.Location, numbers), pick(t.Rule, numbers), pick(t.Failure, numbers)
	s.StopStep, s.StopValue, s.StopBound = pick(t.StopStep, numbers), pick(t.StopValue, numbers), pick(t.StopBound, numbers)
	s.Params = make([]Precises, len(t.Params))
	for p, c := range t.Params {
		s.Params[p] = pick(c, numbers)
	}
	return s
}

func pick[C ~[]T, T any](column C, numbers []int) C {
	picked := make(C, len(numbers))
	for i, n := range numbers {
		picked[i] = column[n]
	}
	return picked
}
