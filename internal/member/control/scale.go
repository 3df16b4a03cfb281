package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/paragon-train/paragon/internal/observe/plural"
)

// What becomes of a Scale.
const (
	// ScaleUnderWay: workers are joining or leaving.
	ScaleUnderWay = "under_way"
	// ScaleReached: so many workers count, and no others.
	ScaleReached = "reached"
	// ScaleTooFew: workers could not be started, or were lost. Reason says why.
	ScaleTooFew = "too_few"
)

// MaxWorkers bounds the number of workers that may be asked for.
const MaxWorkers = 1 << 16

// WorkersOnHost is a number of workers on a host.
type WorkersOnHost struct {
	Host    string `json:"host"`
	Workers int    `json:"workers"` // 0: none
}

// Scale is the newest number of workers that was asked for and taken.
type Scale struct {
	Number  uint64 `json:"number"`  // of the event Scaling
	Workers int    `json:"workers"` // that are wanted
	// Placement is where they are wanted; none: the scheduler chooses.
	Placement []WorkersOnHost `json:"placement,omitempty"`
	// Present is how many workers count and have not been asked to leave.
	Present int    `json:"present"`
	State   string `json:"state"`            // ScaleUnderWay to ScaleTooFew
	Reason  string `json:"reason,omitempty"` // of ScaleTooFew
}

// PlacementText is a placement as people write it: d1=2,d2=1.
func PlacementText(p []WorkersOnHost) string {
	parts := make([]string, len(p))
	for i, x := range p {
		parts[i] = fmt.Sprintf("%s=%d", x.Host, x.Workers)
	}
	return strings.Join(parts, ",")
}

// ScaleText is what a Scale asks for: 3 workers (d1=2,d2=1).
func ScaleText(workers int, p []WorkersOnHost) string {
	text := plural.Of(workers, "worker")
	if len(p) > 0 {
		text += " (" + PlacementText(p) + ")"
	}
	return text
}

func (r *Request) checkScale() error {
	switch {
	case r.Op != OpScale && (r.Workers != 0 || len(r.Placement) > 0):
		return fmt.Errorf("op %s: workers and placement are for op %s", r.Op, OpScale)
	case r.Op != OpScale:
		return nil
	case r.Workers != 0 && len(r.Placement) > 0:
		return fmt.Errorf("op %s: %d workers and a placement: want one of them", r.Op, r.Workers)
	case len(r.Placement) > 0:
		_, err := checkPlacement(r.Placement)
		return err
	case r.Workers < 1 || r.Workers > MaxWorkers:
		return fmt.Errorf("op %s: %d workers, want 1 to %d", r.Op, r.Workers, MaxWorkers)
	}
	return nil
}

// checkPlacement returns the number of workers of a placement.
func checkPlacement(p []WorkersOnHost) (workers int, err error) {
	seen := make(map[string]bool)
	for _, x := range p {
		switch {
		case x.Host == "" || len(x.Host) > MaxHostName || strings.ContainsAny(x.Host, "/ \t\r\n"):
			return 0, fmt.Errorf("host %q: want a name of 1 to %d bytes without spaces and slashes", x.Host, MaxHostName)
		case seen[x.Host]:
			return 0, fmt.Errorf("host %s is named twice, want it once", x.Host)
		case x.Workers < 0 || x.Workers > MaxWorkers:
			return 0, fmt.Errorf("host %s: %d workers, want 0 to %d", x.Host, x.Workers, MaxWorkers)
		}
		seen[x.Host] = true
		workers += x.Workers
	}
	if workers > MaxWorkers {
		return 0, fmt.Errorf("%d workers on %d hosts, want at most %d", workers, len(p), MaxWorkers)
	}
	return workers, nil
}

// Wanted is the number of workers that an OpScale asks for.
func (r *Request) Wanted() int {
	workers := r.Workers
	for _, x := range r.Placement {
		workers += x.Workers
	}
	return workers
}

func (s *Scale) check() error {
	if _, err := checkPlacement(s.Placement); err != nil {
		return fmt.Errorf("control: status: scale %d: %w", s.Number, err)
	}
	switch {
	case !slices.Contains([]string{ScaleUnderWay, ScaleReached, ScaleTooFew}, s.State):
		return fmt.Errorf("control: status: scale %d: state %q is not known", s.Number, s.State)
	case s.Workers < 0 || s.Workers > MaxWorkers || s.Present < 0:
		return fmt.Errorf("control: status: scale %d: %d workers of %d, one is out of range", s.Number, s.Present, s.Workers)
	}
	return nil
}
