package searchpage

import (
	"math"
	"slices"
	"sync"

	"github.com/paragon-train/paragon/internal/observe/page"
)

// maxNotes bounds the notes of a trial.
const maxNotes = 200

// Notes are what happened to the trials of a search, and which of them have changed since a page
// asked last. The zero value is ready. Its methods may be called together.
type Notes struct {
	// mu guards all below.
	mu sync.Mutex
	// told says that a page was told of all trials: from then on it is told of changes.
	told     bool
	changed  map[int]bool
	trials   map[int]*history
	progress page.SearchProgress
	// best is the score of the newest value of the progress, where larger is better.
	best float64
	// began says that progress has had a value.
	began bool
}

// A history is what happened to a trial.
type history struct {
	// notes are the newest maxNotes, and earlier counts those that were left out.
	notes   []page.SearchNote
	earlier int
	// stop is the decision that ended the trial's newest attempt; nil: none did.
	stop *page.SearchNote
	// replicas is what the newest division of the nodes gave it.
	replicas string
}

// AllChanged takes note that any number of trials may have changed.
func (n *Notes) AllChanged() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = false
}

// Changed takes note that a trial has changed.
func (n *Notes) Changed(trial int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mark(trial)
}

// Add adds a note to a trial.
func (n *Notes) Add(trial int, x page.SearchNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(trial, x)
}

// Start adds the start of an attempt: no decision has ended it yet.
func (n *Notes) Start(trial int, x page.SearchNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.add(trial, x)
	h.stop, h.replicas = nil, ""
}

// Stop adds a decision that ends an attempt. mark is how the trial's row and curve show it.
func (n *Notes) Stop(trial int, x, mark page.SearchNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(trial, x).stop = &mark
}

// Replicas adds what a division of the nodes gave to a trial, unless it is what the trial has.
func (n *Notes) Replicas(trial int, x page.SearchNote) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mark(trial)
	if h := n.trials[trial]; h == nil || h.replicas != x.Location+x.Action {
		n.add(trial, x).replicas = x.Location + x.Action
	}
}

// Value takes note of a trial's value at a time in seconds, whose score is larger the better it is.
func (n *Notes) Value(trial int, at page.Precise, value, score float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if math.IsInf(score, -1) || n.began && score <= n.best {
		return
	}
	n.best, n.began = score, true
	n.progress.At = append(n.progress.At, at)
	n.progress.Value = append(n.progress.Value, page.Precise(value))
	n.progress.Trial = append(n.progress.Trial, trial)
}

// mark marks a trial as changed. mu is held.
func (n *Notes) mark(trial int) {
	if n.changed == nil {
		n.changed = make(map[int]bool)
	}
	n.changed[trial] = true
}

// add adds a note to a trial, which has changed. mu is held.
func (n *Notes) add(trial int, x page.SearchNote) *history {
	n.mark(trial)
	h := n.trials[trial]
	if h == nil {
		if n.trials == nil {
			n.trials = make(map[int]*history)
		}
		h = &history{}
		n.trials[trial] = h
	}
	if len(h.notes) == maxNotes {
		h.notes = append(h.notes[:0], h.notes[maxNotes/2:]...)
		h.earlier += maxNotes / 2
	}
	h.notes = append(h.notes, x)
	return h
}

// fresh is what a page has not been told.
type fresh struct {
	// all says that every trial may have changed; else changed has those that have.
	all      bool
	changed  map[int]bool
	progress page.SearchProgress
}

// take returns what is new, which is then known.
func (n *Notes) take() fresh {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := fresh{!n.told, n.changed, n.progress}
	n.changed, n.told, n.progress = nil, true, page.SearchProgress{}
	return f
}

// addStops adds to rows the decisions that ended their trials' newest attempts.
func (n *Notes) addStops(rows []page.SearchRow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range rows {
		x := &rows[i]
		if h := n.trials[x.Number]; h != nil && h.stop != nil {
			x.StopStep, x.StopValue, x.StopBound = h.stop.Step, float64(h.stop.Value), float64(h.stop.Bound)
		}
	}
}

// of are the notes of a trial, and how many earlier ones were left out.
func (n *Notes) of(trial int) (notes []page.SearchNote, earlier int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.trials[trial]
	if h == nil {
		return []page.SearchNote{}, 0
	}
	return slices.Clone(h.notes), h.earlier
}
