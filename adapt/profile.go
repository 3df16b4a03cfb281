package adapt

import (
	"cmp"
	"fmt"
	"slices"
)

// A Profile collects what a running job measures, by configuration: all that a fit needs of its
// past. The zero value is empty. It is saved with a checkpoint as what Entries returns, which JSON
// keeps exactly.
type Profile struct{ entries []ProfileEntry }

// A ProfileEntry has the sums of one configuration.
type ProfileEntry struct {
	Nodes      int `json:"nodes"`
	Replicas   int `json:"replicas"`
	LocalBatch int `json:"local_batch"`
	Servers    int `json:"servers,omitempty"`

	// Computed counts the micro-batches whose computing was timed, and Computing are their
	// seconds.
	Computed  int     `json:"computed"`
	Computing float64 `json:"computing"`
	// Steps counts closing micro-batches, and Closing are their seconds, with the exchange.
	Steps   int     `json:"steps"`
	Closing float64 `json:"closing"`
}

// mostSteps is how many steps an entry averages at most. Then both sums are halved: older steps
// count less and less, since machines get slower and faster.
const mostSteps = 256

// fade halves the sums of an entry that has enough steps. The means stay.
func (e *ProfileEntry) fade() {
	if e.Steps < mostSteps {
		return
	}
	half := func(count *int, seconds *float64) {
		if *count > 0 {
			*seconds *= float64(*count/2) / float64(*count)
			*count /= 2
		}
	}
	half(&e.Steps, &e.Closing)
	half(&e.Computed, &e.Computing)
}

// Accumulated counts a micro-batch that was computed and not pushed, which took so many seconds. Of
// t only the configuration counts: Nodes, Replicas, LocalBatch and Servers.
func (p *Profile) Accumulated(t Timing, seconds float64) {
	if e := p.entry(t, seconds); e != nil {
		e.Computed++
		e.Computing += seconds
	}
}

// Closed counts a closing micro-batch, which took so many seconds, waiting of them for the exchange
// after its computing had ended. Its computing counts as that of an accumulated one. The first step
// after a change of the configuration or of the pass is the caller's to leave out.
func (p *Profile) Closed(t Timing, seconds, waiting float64) {
	if !(waiting >= 0) || !(waiting <= seconds) {
		return
	}
	if e := p.entry(t, seconds); e != nil {
		e.fade()
		e.Steps++
		e.Closing += seconds
		if computing := seconds - waiting; computing > 0 {
			e.Computed++
			e.Computing += computing
		}
	}
}

// entry finds or adds the entry of a configuration; nil where it or the time is not possible.
func (p *Profile) entry(t Timing, seconds float64) *ProfileEntry {
	t.Step, t.Accumulation = seconds, 0
	if t.validate() != nil {
		return nil
	}
	key := ProfileEntry{Nodes: t.Nodes, Replicas: t.Replicas, LocalBatch: t.LocalBatch, Servers: t.Servers}
	i, found := slices.BinarySearchFunc(p.entries, key, compareEntries)
	if !found {
		p.entries = slices.Insert(p.entries, i, key)
	}
	return &p.entries[i]
}

// Entry has the sums of t's configuration; false: nothing was measured with it.
func (p *Profile) Entry(t Timing) (ProfileEntry, bool) {
	key := ProfileEntry{Nodes: t.Nodes, Replicas: t.Replicas, LocalBatch: t.LocalBatch, Servers: t.Servers}
	i, found := slices.BinarySearchFunc(p.entries, key, compareEntries)
	if !found {
		return key, false
	}
	return p.entries[i], true
}

func compareEntries(a, b ProfileEntry) int {
	return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Servers, b.Servers), cmp.Compare(a.LocalBatch, b.LocalBatch))
}

// Timings are the means of all configurations that had a closing micro-batch.
func (p *Profile) Timings() []Timing {
	var timings []Timing
	for _, e := range p.entries {
		if e.Steps == 0 {
			continue
		}
		t := Timing{Nodes: e.Nodes, Replicas: e.Replicas, LocalBatch: e.LocalBatch, Servers: e.Servers, Step: e.Closing / float64(e.Steps)}
		if e.Computed > 0 {
			t.Accumulation = e.Computing / float64(e.Computed)
		}
		timings = append(timings, t)
	}
	return timings
}

// MostReplicas is the largest number of replicas that was measured.
func (p *Profile) MostReplicas() int {
	most := 0
	for _, e := range p.entries {
		if e.Steps > 0 {
			most = max(most, e.Replicas)
		}
	}
	return most
}

// Entries are the sums, sorted by configuration.
func (p *Profile) Entries() []ProfileEntry { return slices.Clone(p.entries) }

// Restore replaces the sums, or nothing where there is an error.
func (p *Profile) Restore(entries []ProfileEntry) error {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, compareEntries)
	for i, e := range sorted {
		t := Timing{Nodes: e.Nodes, Replicas: e.Replicas, LocalBatch: e.LocalBatch, Servers: e.Servers, Step: 1}
		if err := t.validate(); err != nil {
			return fmt.Errorf("adapt: restore profile: %w", err)
		}
		if e.Steps < 0 || e.Computed < 0 || (e.Steps > 0) != (e.Closing > 0) || (e.Computed > 0) != (e.Computing > 0) || !finite(e.Closing) || !finite(e.Computing) {
			return fmt.Errorf("adapt: restore profile: %+v has %d steps in %g s and %d computed in %g s, want a positive time for each number above 0",
				t, e.Steps, e.Closing, e.Computed, e.Computing)
		}
		if i > 0 && compareEntries(sorted[i-1], e) == 0 {
			return fmt.Errorf("adapt: restore profile: local batch %d with %d replicas on %d nodes is listed twice", e.LocalBatch, e.Replicas, e.Nodes)
		}
	}
	p.entries = sorted
	return nil
}
