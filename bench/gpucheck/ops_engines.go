package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/paragon-train/paragon/internal/cuda/cudnn"
)

// An enginePlan is one engine of cuDNN for a question.
type enginePlan interface {
	Engine() string
	Build() error
	Close() error
}

// engineCount is what became of engines.
type engineCount struct {
	ran, refused, left int
	reason             error // of the first that was refused
}

func (n engineCount) String() string {
	text := fmt.Sprintf("%d engines", n.ran)
	if n.refused > 0 {
		text += fmt.Sprintf("; %d refused, such as: %s", n.refused, firstLine(n.reason.Error()))
	}
	if n.left > 0 {
		text += fmt.Sprintf("; %d not looked at, no time is left", n.left)
	}
	return text
}

// eachEngine builds engines one by one and runs f with each, until a time, but one at least; it closes them. What the library refuses is
// left out, as in training; that nothing runs is an error.
func eachEngine[P enginePlan](n *engineCount, plans []P, until time.Time, f func(p P) error) error {
	ran := 0
	for i, p := range plans {
		if ran > 0 && time.Now().After(until) {
			n.left, n.ran = n.left+len(plans)-i, n.ran+ran
			return closePlans(plans[i:])
		}
		err := p.Build()
		if err == nil {
			err = f(p)
		}
		switch {
		case err == nil:
			ran++
		case cudnn.Refused(err) && !lost(err):
			if n.refused++; n.reason == nil {
				n.reason = fmt.Errorf("%s: %w", p.Engine(), err)
			}
		default:
			return fmt.Errorf("%s: %w", p.Engine(), errors.Join(err, closePlans(plans[i:])))
		}
		if err := p.Close(); err != nil {
			return errors.Join(err, closePlans(plans[i+1:]))
		}
	}
	if n.ran += ran; ran == 0 {
		return fmt.Errorf("none of %d engines runs: %w", len(plans), n.reason)
	}
	return nil
}

func closePlans[P enginePlan](plans []P) error {
	var errs []error
	for _, p := range plans {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
