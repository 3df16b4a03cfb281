package tune

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/files/vfs"
)

// ReadResult reads the result so far from a study's log alone, at path or in the folder path. The
// study may be running. Decisions are those of the log: Load and Replay check them by the study's
// rules. The functions of derived parameters are not in a log, and those of the result's space
// return nil.
func ReadResult(path string) (*Result, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, logName)
	}
	var l *ledger
	_, err := readLog(vfs.OS{}, path, func(e *Event) (err error) {
		switch {
		case e.Kind == EventStudy && l == nil:
			cfg, err := e.Header.config()
			if err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
			if l, err = newLedger(cfg); err != nil {
				return err
			}
		case l == nil:
			return errors.New("the first event is not a study event")
		}
		if e.Rules != nil {
			l.cfg.Samples, l.cfg.Scope, l.cfg.KeepDiverged, l.cfg.Deadline = e.Rules.Samples, e.Rules.Scope, e.Rules.KeepDiverged, e.Rules.Deadline
			l.cfg.logged = &loggedRules{ruleType(e.Rules.Suggester), ruleType(e.Rules.Scheduler)}
			if l.plan, err = newPlan(l.cfg); err != nil {
				return err
			}
		}
		return l.applyEvent(e, false)
	})
	if err == nil && l == nil {
		err = errors.New("it has no event")
	}
	if err != nil {
		return nil, fmt.Errorf("tune: read result %s: %w", path, err)
	}
	return l.result(), nil
}

// loggedRules are the Go types of a study's rules, in the config of one that is read from its log
// alone.
type loggedRules struct{ suggester, scheduler string }

// ruleType is the Go type of a suggester or scheduler, as ruleText writes it.
func ruleType(text json.RawMessage) string {
	var named map[string]json.RawMessage
	// The name is for people: "" if the line has none.
	_ = json.Unmarshal(text, &named)
	for name := range named {
		return name
	}
	return ""
}

// constraintText is what Constraint.String writes.
var constraintText = regexp.MustCompile(`(?s)^(.*) (<=|>=) (\S+)$`)

// config is the study of a log as far as its header has it.
func (h *Header) config() (*Config, error) {
	if h.Version != logVersion {
		return nil, fmt.Errorf("got version %d of the log, want %d", h.Version, logVersion)
	}
	c := &Config{Name: h.Name, Metric: h.Metric, Mode: h.Mode, Seed: h.Seed, Samples: -1, Parallel: AsManyAsFit, logged: &loggedRules{h.Suggester, h.Scheduler}}
	for i, line := range h.Space {
		if err := c.addLine(line); err != nil {
			return nil, fmt.Errorf("space[%d]: got %q: %w", i, line, err)
		}
	}
	for i, text := range h.Objectives {
		at := max(strings.LastIndexByte(text, ' '), 0)
		mode, err := ParseMode(strings.TrimPrefix(text[at:], " "))
		if err != nil {
			return nil, fmt.Errorf("objectives[%d]: got %q, want a metric and its mode", i, text)
		}
		c.Objectives = append(c.Objectives, Objective{text[:at], mode})
	}
	for i, text := range h.Constraints {
		m := constraintText.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("constraints[%d]: got %q, want a metric and its bound", i, text)
		}
		bound, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("constraints[%d]: got %q: %w", i, text, err)
		}
		c.Constraints = append(c.Constraints, Constraint{m[1], bound, m[2] == ">="})
	}
	return c, c.Validate()
}

// addLine adds what one line of a header's space says.
func (c *Config) addLine(line string) error {
	if line == "default first" {
		c.DefaultFirst = true
		return nil
	}
	d := &decoder{b: []byte(line), names: map[string]string{}}
	if d.has("point ") {
		p := Point{}
		for name, value := range d.params().All() {
			p[name] = value
		}
		c.Points = append(c.Points, p)
	} else if d.has("fidelity ") {
		c.Fidelity = d.fidelity()
	} else {
		c.Space = append(c.Space, d.param())
	}
	if d.err == nil && d.i < len(d.b) {
		d.fail("more than a parameter")
	}
	return d.err
}

// param reads what Spec.line wrote.
func (d *decoder) param() Param {
	kind, _, _ := bytes.Cut(d.b, []byte(" "))
	d.i = len(kind)
	p := Param{Spec: Spec{Kind: Kind(kind)}}
	d.want(" ")
	p.Name = d.quoted()
	switch p.Kind {
	case KindReal, KindInt:
		d.want(" [")
		p.Low = d.float()
		d.want(", ")
		p.High = d.float()
		d.want("]")
	case KindNormal, KindLogNormal:
		d.want(" ")
		p.Mean = d.float()
		d.want(" ± ")
		p.Deviation = d.float()
	case KindChoice, KindGrid:
		d.want(" ")
		p.Values = d.values()
	case KindBool:
		p.Values = []any{false, true}
	case KindDerived:
		p.Derive = func(Params) any { return nil }
	default:
		d.fail("there is no such kind")
	}
	p.Spec.Log = d.has(" log")
	if d.has(" step ") {
		p.Spec.Step = d.float()
	}
	if d.has(" default ") {
		p.Spec.Default = d.value()
	}
	if d.has(" when ") {
		p.Parent = d.quoted()
		d.want(" ")
		p.ParentValues = d.values()
	}
	return p
}

// quoted reads a string as %q writes it.
func (d *decoder) quoted() string {
	word, err := strconv.QuotedPrefix(string(d.b[d.i:]))
	if err != nil {
		d.fail("want a name in quotes")
		return ""
	}
	d.i += len(word)
	s, _ := strconv.Unquote(word) // it is quoted
	return s
}

// float reads a number as %v writes it.
func (d *decoder) float() float64 {
	x, err := strconv.ParseFloat(string(d.while("0123456789+-.e")), 64)
	if err != nil {
		d.fail("want a number")
	}
	return x
}

// values reads what formatAll wrote.
func (d *decoder) values() (list []any) {
	d.want("[")
	for d.err == nil && !d.has("]") {
		if len(list) > 0 {
			d.want(" ")
		}
		list = append(list, d.value())
	}
	return list
}
