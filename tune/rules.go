package tune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
	"github.com/paragon-train/paragon/tune/internal/ruletext"
)

// Rules are what decides in a search, from one opening of its log to the next: a search may be
// resumed with more samples, or with another suggester. Replay uses them. A suggester, scheduler or
// pruner is a JSON object with the name of its Go type and, in it, those of its exported fields
// that are not zero: {"*suggest.TPE":{"Startup":4}}.
type Rules struct {
	Samples      int               `json:"samples"`
	Scope        Scope             `json:"scope,omitempty"`
	KeepDiverged bool              `json:"keep_diverged,omitempty"`
	Deadline     time.Time         `json:"deadline,omitzero"`
	Suggester    json.RawMessage   `json:"suggester"`
	Scheduler    json.RawMessage   `json:"scheduler"`
	Pruners      []json.RawMessage `json:"pruners,omitempty"`
}

// rules are those of a valid config.
func (c *Config) rules() *Rules {
	r := &Rules{Samples: c.Samples, Scope: c.Scope, KeepDiverged: c.KeepDiverged, Deadline: c.Deadline, Suggester: ruleKinds.Text(Random{}), Scheduler: ruleKinds.Text(FIFO{})}
	if c.Suggester != nil {
		r.Suggester = ruleKinds.Text(c.Suggester)
	}
	if c.Scheduler != nil {
		r.Scheduler = ruleKinds.Text(c.Scheduler)
	}
	for _, p := range c.Pruners {
		r.Pruners = append(r.Pruners, ruleKinds.Text(p))
	}
	return r
}

// differs says which of the rules have changed. Those that can contradict decisions in the log come
// first.
func (r *Rules) differs(now *Rules) (all []string) {
	for _, f := range []struct {
		name    string
		was, is any
	}{{"the scheduler", []json.RawMessage{r.Scheduler}, []json.RawMessage{now.Scheduler}}, {"the list of pruners", r.Pruners, now.Pruners},
		{"Scope", r.Scope, now.Scope}, {"KeepDiverged", r.KeepDiverged, now.KeepDiverged},
		{"the suggester", []json.RawMessage{r.Suggester}, []json.RawMessage{now.Suggester}}, {"Samples", r.Samples, now.Samples},
		{"Deadline", r.deadline(), now.deadline()}} {
		if reflect.DeepEqual(f.was, f.is) {
			continue
		}
		if was, ok := f.was.([]json.RawMessage); ok {
			f.was, f.is = ruletext.Labels(was, f.is.([]json.RawMessage))
		}
		all = append(all, fmt.Sprintf("%s was %v and is now %v", f.name, f.was, f.is))
	}
	return all
}

// deadline is for people.
func (r *Rules) deadline() string {
	if r.Deadline.IsZero() {
		return "none"
	}
	return r.Deadline.Format(time.RFC3339)
}

// key is equal for rules that differ at most in the number of samples and the deadline.
func (r *Rules) key() string {
	same := *r
	same.Samples, same.Deadline = 0, time.Time{}
	return string(same.appendJSON(nil))
}

// appendJSON writes the rules as one object.
func (r *Rules) appendJSON(b []byte) []byte {
	text, err := json.Marshal(r)
	// Rules are from ruletext or were read, so they are JSON.
	if err != nil {
		panic(fmt.Sprintf("tune: rules %+v: %v", r, err))
	}
	return append(b, text...)
}

// scanRules reads what appendJSON wrote, if it is next.
func scanRules(d *jsonline.Scanner) *Rules {
	if !d.Has(`,"rules":`) {
		return nil
	}
	from := json.NewDecoder(bytes.NewReader(d.Rest()))
	r := &Rules{}
	if err := from.Decode(r); err != nil {
		d.Fail("want rules: " + err.Error())
		return nil
	}
	text := d.Rest()[:from.InputOffset()]
	if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, text) {
		d.Fail("want rules as they are written")
	}
	d.Skip(len(text))
	return r
}

// ruleKinds are the interfaces that rules implement.
var ruleKinds = ruletext.Kinds{reflect.TypeFor[Suggester](), reflect.TypeFor[Scheduler](), reflect.TypeFor[Pruner]()}

// applyTo gives a config these rules, made anew.
func (r *Rules) applyTo(c *Config, m *ruletext.Maker) error {
	suggester, err := ruletext.Make[Suggester](m, r.Suggester)
	if err != nil {
		return err
	}
	scheduler, err := ruletext.Make[Scheduler](m, r.Scheduler)
	if err != nil {
		return err
	}
	var pruners []Pruner
	for _, text := range r.Pruners {
		p, err := ruletext.Make[Pruner](m, text)
		if err != nil {
			return err
		}
		pruners = append(pruners, p)
	}
	c.Suggester, c.Scheduler, c.Pruners, c.Scope, c.KeepDiverged = suggester, scheduler, pruners, r.Scope, r.KeepDiverged
	return nil
}
