package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
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
	r := &Rules{Samples: c.Samples, Scope: c.Scope, KeepDiverged: c.KeepDiverged, Deadline: c.Deadline, Suggester: ruleText(Random{}), Scheduler: ruleText(FIFO{})}
	if c.Suggester != nil {
		r.Suggester = ruleText(c.Suggester)
	}
	if c.Scheduler != nil {
		r.Scheduler = ruleText(c.Scheduler)
	}
	for _, p := range c.Pruners {
		r.Pruners = append(r.Pruners, ruleText(p))
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
			f.was, f.is = ruleLabels(was, f.is.([]json.RawMessage))
		}
		all = append(all, fmt.Sprintf("%s was %v and is now %v", f.name, f.was, f.is))
	}
	return all
}

// ruleLabels are the texts of rules that differ, for people: as ruleLabel has them, or whole if
// that leaves out the difference.
func ruleLabels(was, is []json.RawMessage) (string, string) {
	labels := func(texts []json.RawMessage, label func(json.RawMessage) string) string {
		var all []string
		for _, text := range texts {
			all = append(all, label(text))
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	}
	if a, b := labels(was, ruleLabel), labels(is, ruleLabel); a != b {
		return a, b
	}
	whole := func(text json.RawMessage) string { return string(text) }
	return labels(was, whole), labels(is, whole)
}

// ruleLabel is the text of a rule for people: schedule.ASHA{"MaxStep":5}.
func ruleLabel(text json.RawMessage) string {
	var named map[string]json.RawMessage
	if json.Unmarshal(text, &named) != nil || len(named) != 1 {
		return string(text)
	}
	name := ""
	for goType, settings := range named {
		name = strings.TrimPrefix(goType, "*")
		if len(settings) > len("{}") && string(settings) != "null" {
			name += string(settings)
		}
	}
	return name
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

func (r *Rules) appendJSON(b []byte) []byte {
	text, err := json.Marshal(r)
	// Rules are from ruleText or were read, so they are JSON.
	if err != nil {
		panic(fmt.Sprintf("tune: rules %+v: %v", r, err))
	}
	return append(b, text...)
}

// rules reads what appendJSON wrote, if it is next.
func (d *decoder) rules() *Rules {
	if !d.has(`,"rules":`) {
		return nil
	}
	from := json.NewDecoder(bytes.NewReader(d.b[d.i:]))
	r := &Rules{}
	if err := from.Decode(r); err != nil {
		d.fail("want rules: " + err.Error())
		return nil
	}
	text := d.b[d.i : d.i+int(from.InputOffset())]
	if again, err := json.Marshal(r); err != nil || !bytes.Equal(again, text) {
		d.fail("want rules as they are written")
	}
	d.i += len(text)
	return r
}

// maxRuleText bounds the text of a suggester, scheduler or pruner, in bytes. Of one with a longer
// text only the type is kept.
const maxRuleText = 64 << 10

// ruleText is the text of a suggester, scheduler or pruner.
func ruleText(rule any) json.RawMessage {
	tree, err := ruleTree(reflect.ValueOf(rule), 0)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(map[string]any{reflect.TypeOf(rule).String(): tree}); err == nil && len(text) <= maxRuleText {
			return text
		}
	}
	text, _ := json.Marshal(map[string]any{reflect.TypeOf(rule).String(): nil}) // a name alone
	return text
}

// maxRuleDepth bounds how deep rules are within each other: one may hold itself.
const maxRuleDepth = 20

var ruleTypes = []reflect.Type{reflect.TypeFor[Suggester](), reflect.TypeFor[Scheduler](), reflect.TypeFor[Pruner]()}

// isRule says whether a type is one of the interfaces for rules.
func isRule(t reflect.Type) bool { return slices.Contains(ruleTypes, t) }

// ruleTree is a setting in the types that JSON has. Functions and interfaces other than those for
// rules are no settings: they are nil.
func ruleTree(v reflect.Value, depth int) (any, error) {
	if depth > maxRuleDepth {
		return nil, errors.New("tune: rules nested without end")
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) { // JSON has none
			return fmt.Sprint(x), nil
		}
		return v.Float(), nil
	case reflect.String:
		return v.String(), nil
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return ruleTree(v.Elem(), depth+1)
	case reflect.Interface:
		if v.IsNil() || !isRule(v.Type()) {
			return nil, nil
		}
		tree, err := ruleTree(v.Elem(), depth+1)
		return map[string]any{v.Elem().Type().String(): tree}, err
	case reflect.Struct:
		all := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || v.Field(i).IsZero() {
				continue
			}
			tree, err := ruleTree(v.Field(i), depth+1)
			if err != nil {
				return nil, err
			}
			if tree != nil {
				all[f.Name] = tree
			}
		}
		return all, nil
	case reflect.Slice, reflect.Array:
		all := make([]any, v.Len())
		for i := range all {
			var err error
			if all[i], err = ruleTree(v.Index(i), depth+1); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, nil
}

// A ruleMaker makes rules from their texts, of types that it knows.
type ruleMaker map[string]reflect.Type

// know adds the types of rules, and of those within them.
func (m ruleMaker) know(rules ...any) {
	for _, rule := range rules {
		if v := reflect.ValueOf(rule); v.IsValid() {
			m.knowIn(v, 0)
		}
	}
}

func (m ruleMaker) knowIn(v reflect.Value, depth int) {
	if depth > maxRuleDepth {
		return
	}
	if depth == 0 || v.Type().Implements(ruleTypes[0]) || v.Type().Implements(ruleTypes[1]) || v.Type().Implements(ruleTypes[2]) {
		if v.Kind() != reflect.Interface {
			m[v.Type().String()] = v.Type()
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			m.knowIn(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				m.knowIn(v.Field(i), depth+1)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			m.knowIn(v.Index(i), depth+1)
		}
	}
}

// apply gives a config these rules, made anew.
func (m ruleMaker) apply(r *Rules, c *Config) error {
	suggester, err := makeRule[Suggester](m, r.Suggester)
	if err != nil {
		return err
	}
	scheduler, err := makeRule[Scheduler](m, r.Scheduler)
	if err != nil {
		return err
	}
	var pruners []Pruner
	for _, text := range r.Pruners {
		p, err := makeRule[Pruner](m, text)
		if err != nil {
			return err
		}
		pruners = append(pruners, p)
	}
	c.Suggester, c.Scheduler, c.Pruners, c.Scope, c.KeepDiverged = suggester, scheduler, pruners, r.Scope, r.KeepDiverged
	return nil
}

func makeRule[T any](m ruleMaker, text json.RawMessage) (made T, err error) {
	err = m.make(reflect.ValueOf(&made).Elem(), text)
	return made, err
}

// make sets v to what ruleTree made of it.
func (m ruleMaker) make(v reflect.Value, text json.RawMessage) error {
	if string(text) == "null" {
		return nil
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
		v.SetFloat(x)
		return err
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return m.make(v.Elem(), text)
	case reflect.Interface:
		return m.makeNamed(v, text)
	case reflect.Struct:
		var all map[string]json.RawMessage
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
		for name, value := range all {
			f := v.FieldByName(name)
			if !f.IsValid() || !f.CanSet() {
				return fmt.Errorf("%s has no field %s", v.Type(), name)
			}
			if err := m.make(f, value); err != nil {
				return fmt.Errorf("%s.%s: %w", v.Type(), name, err)
			}
		}
		return nil
	case reflect.Slice, reflect.Array:
		var all []json.RawMessage
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), len(all), len(all)))
		} else if v.Len() != len(all) {
			return fmt.Errorf("%s: got %d values", v.Type(), len(all))
		}
		for i, value := range all {
			if err := m.make(v.Index(i), value); err != nil {
				return err
			}
		}
		return nil
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// makeNamed sets an interface to a rule of the type that the text names.
func (m ruleMaker) makeNamed(v reflect.Value, text json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for name, settings := range all {
		t, ok := m[name]
		if !ok || len(all) != 1 || string(settings) == "null" {
			return fmt.Errorf("%s cannot be restored from the log", name)
		}
		made := reflect.New(t).Elem()
		if err := m.make(made, settings); err != nil {
			return err
		}
		if !t.Implements(v.Type()) {
			return fmt.Errorf("%s is not a %s", name, v.Type())
		}
		v.Set(made)
	}
	return nil
}
