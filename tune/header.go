package tune

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/tune/internal/jsonline"
)

// logVersion is the version of the log that this package writes, and reads.
const logVersion = 1

// header identifies the study in the log.
func (c *Config) header() *Header {
	h := &Header{Version: logVersion, Name: c.Name, Metric: c.Metric, Mode: c.Mode, Seed: c.Seed,
		Suggester: typeOf(c.Suggester, Random{}), Scheduler: typeOf(c.Scheduler, FIFO{}), Objectives: texts(resolved(c.Objectives)), Constraints: texts(c.Constraints)}
	for _, p := range c.Space {
		h.Space = append(h.Space, p.line())
	}
	for _, p := range c.Points {
		if full, err := c.Space.point(p); err == nil {
			h.Space = append(h.Space, "point "+string(full.appendJSON(nil)))
		}
	}
	if c.DefaultFirst {
		h.Space = append(h.Space, "default first")
	}
	if c.Fidelity != nil {
		h.Space = append(h.Space, c.Fidelity.line())
	}
	return h
}

// differs names a property of a study that has changed and must not.
func (h *Header) differs(now *Header) error {
	for _, f := range []struct {
		name      string
		was, want any
	}{{"the version of the log", h.Version, now.Version}, {"Metric", h.Metric, now.Metric}, {"Mode", h.Mode, now.Mode}, {"Seed", h.Seed, now.Seed},
		{"Objectives", strings.Join(h.Objectives, ", "), strings.Join(now.Objectives, ", ")}, {"Constraints", strings.Join(h.Constraints, ", "), strings.Join(now.Constraints, ", ")},
		{"Fidelity", cmp.Or(h.Fidelity(), "none"), cmp.Or(now.Fidelity(), "none")}, {"the number of parameters and points", len(h.Space), len(now.Space)}} {
		if f.was != f.want {
			return fmt.Errorf("%s was %v and is now %v", f.name, f.was, f.want)
		}
	}
	for i, line := range h.Space {
		if line != now.Space[i] {
			return fmt.Errorf("the space had %s and has now %s", line, now.Space[i])
		}
	}
	return nil
}

// A Header identifies the study of a log. A study that is resumed must have the same.
type Header struct {
	Version int
	Name    string
	Metric  string
	Mode    Mode
	Seed    uint64
	// Space has a line for each parameter.
	Space []string
	// Scheduler and Suggester name the types, for people.
	Scheduler, Suggester string
	// Objectives and Constraints have a line for each, such as "accuracy max" and "latency <=
	// 20".
	Objectives, Constraints []string
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
	d := &jsonline.Scanner{}
	d.Reset([]byte(line))
	if d.Has("point ") {
		p := Point{}
		for name, value := range scanParams(d).All() {
			p[name] = value
		}
		c.Points = append(c.Points, p)
	} else if d.Has("fidelity ") {
		c.Fidelity = scanFidelity(d)
	} else {
		c.Space = append(c.Space, scanParam(d))
	}
	if d.More() {
		d.Fail("more than a parameter")
	}
	return d.Err()
}

// Fidelity describes the study's fidelity; "" if it has none.
func (h *Header) Fidelity() string {
	for _, line := range h.Space {
		if f, ok := strings.CutPrefix(line, "fidelity "); ok {
			return f
		}
	}
	return ""
}
