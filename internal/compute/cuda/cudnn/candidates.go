package cudnn

import (
	"errors"
	"fmt"
	"strings"
)

// Forward gives the built plans for y from x and w: in the heuristics' order, then those of the
// older interface.
func (h *Handle) Forward(c Conv) ([]*Plan, error) { return h.Plans(Forward, c) }

// BackwardData gives the built plans for dx from w and dy.
func (h *Handle) BackwardData(c Conv) ([]*Plan, error) { return h.Plans(BackwardData, c) }

// BackwardWeight gives the built plans for dw from x and dy.
func (h *Handle) BackwardWeight(c Conv) ([]*Plan, error) { return h.Plans(BackwardWeight, c) }

// BackwardWeightAny is BackwardWeight for callers that take dw in c.Weight or in c.In and convert
// it themselves: the plans that write c.Weight come first, then those that write c.In. Which of the
// two a plan does is its Conv().Weight.
func (h *Handle) BackwardWeightAny(c Conv) ([]*Plan, error) {
	plans, err := h.BackwardWeight(c)
	if c.Weight == c.In {
		return plans, err
	}
	in := c
	in.Weight = c.In
	more, err2 := h.BackwardWeight(in)
	return either(plans, err, more, err2)
}

// either is what there is of two forms of a question, of which the library may refuse one.
func either[P buildablePlan](plans []P, err error, more []P, err2 error) ([]P, error) {
	all := append(plans, more...)
	if err != nil && !Refused(err) || err2 != nil && !Refused(err2) || len(all) == 0 {
		closeAll(all)
		return nil, errors.Join(err, err2)
	}
	return all, nil
}

// Plans gives the built plans for a pass, best guess first. It compiles all that there are;
// Candidates and Build compile one.
func (h *Handle) Plans(op Op, c Conv) ([]*Plan, error) {
	plans, err := h.Candidates(op, c)
	if err != nil {
		return nil, err
	}
	return keepBuilt(plans, 0, describe(op, c))
}

// Candidates gives the plans for a pass before they are built.
func (h *Handle) Candidates(op Op, c Conv) ([]*Plan, error) {
	if op < Forward || op > BackwardWeight {
		return nil, fmt.Errorf("cudnn: %v: want one of the three passes", op)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if h.handle == 0 {
		return nil, fmt.Errorf("cudnn: %s: the handle is closed", describe(op, c))
	}
	w := h.wish(c)
	var plans []*Plan
	g, err := h.convGraph(op, c)
	var found []plan
	if err == nil {
		found, err = h.candidates(g, w)
	}
	for _, p := range found {
		plans = append(plans, &Plan{plan: p, op: op, conv: c})
	}
	if err != nil && !Refused(err) {
		return nil, err
	}
	// What one of the two interfaces refuses the other may take.
	if h.Legacy {
		legacy, err2 := h.legacyCandidates(op, c, w)
		if err2 != nil && (!Refused(err2) || len(plans) == 0 && !errors.Is(err2, ErrNotSupported)) {
			closeAll(plans)
			return nil, errors.Join(err, err2)
		}
		for _, l := range legacy {
			plans = append(plans, h.legacyPlan(op, c, l))
		}
	}
	if len(plans) == 0 {
		if err == nil {
			err = ErrNotSupported
		}
		return nil, err
	}
	return plans, nil
}

// wish is what an engine for a convolution must keep to.
func (h *Handle) wish(c Conv) wish {
	return wish{deterministic: !c.NonDeterministic, float32: c.In == Float32 && !c.TF32}
}

func (h *Handle) legacyPlan(op Op, c Conv, l *legacyPlan) *Plan {
	return &Plan{plan: plan{h: h, engine: engine{name: l.name, mode: ModeLegacy, notes: l.notes}, legacy: l, workspace: l.workspace}, op: op, conv: c}
}

// candidates gives the wanted engines of a graph as plans that are not built. It owns the graph:
// without plans it is released.
func (h *Handle) candidates(g *graph, w wish) ([]plan, error) {
	found, err := h.engines(g)
	if err != nil {
		return nil, errors.Join(err, g.destroy())
	}
	var plans []plan
	var unwanted []string
	compiled := 0
	for _, e := range found {
		reason := w.refuses(e.notes)
		if reason == "" && e.compiled {
			if compiled++; compiled > h.MaxCompiled {
				reason = fmt.Sprintf("compiled by the library, as %d before it", h.MaxCompiled)
			}
		}
		if reason != "" {
			unwanted = append(unwanted, fmt.Sprintf("%s: %s", e.name, reason))
			if err := h.destroy(e.config); err != nil {
				return nil, err
			}
			continue
		}
		g.retain()
		plans = append(plans, plan{h: h, graph: g, engine: e})
	}
	if len(plans) == 0 {
		err := fmt.Errorf("cudnn: %s: none of %d engines is wanted: %s: %w", g.what, len(found), strings.Join(unwanted, ", "), ErrNotSupported)
		return nil, errors.Join(err, g.destroy())
	}
	return plans, nil
}

// A buildablePlan is a pointer to a kind of plan.
type buildablePlan interface {
	Build() error
	Close() error
	Engine() string
}

// keepBuilt builds the plans, the first most of them or all if most is 0, and leaves out those that
// cannot be. None left is an error that has all reasons.
func keepBuilt[P buildablePlan](plans []P, most int, what string) ([]P, error) {
	var kept []P
	var reasons []error
	for i, p := range plans {
		if most > 0 && len(kept) == most {
			closeAll(plans[i:])
			break
		}
		err := p.Build()
		if err == nil {
			kept = append(kept, p)
			continue
		}
		if !Refused(err) {
			closeAll(kept)
			closeAll(plans[i:])
			return nil, err
		}
		reasons = append(reasons, err)
		if err := p.Close(); err != nil {
			closeAll(kept)
			closeAll(plans[i+1:])
			return nil, err
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("cudnn: %s: none of %d engines: %w", what, len(plans), refused(reasons))
	}
	return kept, nil
}

func closeAll[P buildablePlan](plans []P) {
	for _, p := range plans {
		// The plan is closed on the way out with an error that says more.
		p.Close()
	}
}

// Release closes all plans but the one that is kept, the usual end of a choice.
func Release[P interface {
	comparable
	buildablePlan
}](plans []P, keep P) error {
	var errs []error
	for _, p := range plans {
		if p != keep {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
