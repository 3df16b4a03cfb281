package cudnn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// remake makes an engine's configuration from its name, without the heuristics, which take
// milliseconds. The caller owns it.
func (h *Handle) remake(g *graph, name string) (e engine, err error) {
	e = engine{name: name, mode: ModeRemembered}
	index, knobs, err := parseEngine(name)
	if err != nil {
		return e, err
	}
	what := name + " for " + g.what
	var parts []descriptor
	defer func() {
		for _, d := range parts {
			err = errors.Join(err, h.destroy(d))
		}
		if err != nil {
			err = errors.Join(err, h.destroy(e.config))
			e.config = 0
		}
	}()
	part := func(t descriptorType, set func(d descriptor) error) (descriptor, error) {
		d, err := h.create(t, what)
		if err != nil {
			return 0, err
		}
		parts = append(parts, d)
		if err := set(d); err != nil {
			return 0, err
		}
		return d, h.finalize(d, t, what)
	}
	d, err := part(engineDescriptor, func(d descriptor) error {
		return errors.Join(h.setDescriptors(d, attrEngineGraph, what, g.root), h.setInts(d, attrEngineGlobalIndex, typeInt64, what, index))
	})
	if err != nil {
		return e, err
	}
	if err := h.notes(&e, d, what); err != nil {
		return e, err
	}
	var choices []descriptor
	for _, k := range knobs {
		c, err := part(knobChoiceDescriptor, func(d descriptor) error {
			return errors.Join(h.setEnum(d, attrKnobType, typeKnobType, what, int32(k[0])), h.setInts(d, attrKnobValue, typeInt64, what, k[1]))
		})
		if err != nil {
			return e, err
		}
		choices = append(choices, c)
	}
	if e.config, err = h.create(configDescriptor, what); err != nil {
		return e, err
	}
	err = h.setDescriptors(e.config, attrConfigEngine, what, d)
	if err == nil && len(choices) > 0 {
		err = h.setDescriptors(e.config, attrConfigKnobChoices, what, choices...)
	}
	if err == nil {
		err = h.finalize(e.config, configDescriptor, what)
	}
	return e, err
}

// parseEngine reads "eng4 k2=17 k24=3", pairs of knob and value.
func parseEngine(name string) (index int64, knobs [][2]int64, err error) {
	for i, field := range strings.Fields(name) {
		if i == 0 {
			number, ok := strings.CutPrefix(field, "eng")
			if index, err = strconv.ParseInt(number, 10, 32); err != nil || !ok || index < 0 {
				return 0, nil, fmt.Errorf("cudnn: %q is not an engine's name", name)
			}
			continue
		}
		knob, value, ok := strings.Cut(strings.TrimPrefix(field, "k"), "=")
		k, err1 := strconv.ParseInt(knob, 10, 31)
		v, err2 := strconv.ParseInt(value, 10, 64)
		if !ok || field[0] != 'k' || err1 != nil || err2 != nil || len(knobs) == maxKnobs {
			return 0, nil, fmt.Errorf("cudnn: %q is not an engine's name: %q is not a knob", name, field)
		}
		knobs = append(knobs, [2]int64{k, v})
	}
	if len(strings.Fields(name)) == 0 {
		return 0, nil, fmt.Errorf("cudnn: an engine has no name")
	}
	return index, knobs, nil
}
