package worker

import (
	"cmp"
	"context"
	"fmt"

	"github.com/paragon-train/paragon/checkpoint"
	"github.com/paragon-train/paragon/internal/member/cluster"
	"github.com/paragon-train/paragon/metrics"
	"github.com/paragon-train/paragon/sampler"
)

// position is where a run is: the next step.
type position struct {
	Epoch int `json:"epoch"`
	// Step is within the division: what remains of the epoch after the cuts. Steps counts those
	// done in all.
	Step  int    `json:"step"`
	Steps uint64 `json:"steps"`
	// Cuts are those of the epoch.
	Cuts []sampler.Cut `json:"cuts,omitempty"`
	// Bad is how many damaged examples of the pass all workers have left out.
	Bad int `json:"bad,omitempty"`
	// Order is the name of the examples' order. Empty, as in older checkpoints: contiguous.
	Order string `json:"order,omitempty"`
	// Adapt is nil where the batch does not change; else Epoch is the pass over the data.
	Adapt *adaptState `json:"adapt,omitempty"`
	// Evaluate and EndEpoch are of a run that was stopped: what comes before the next step, and
	// had no time any more. Evaluate is an evaluation within the epoch. EndEpoch is the epoch's
	// end: running statistics are averaged, and the model is evaluated.
	Evaluate bool `json:"evaluate,omitempty"`
	EndEpoch bool `json:"end_epoch,omitempty"`
	// Early is nil where the run does not stop early, or was not evaluated yet.
	Early *stopState `json:"early_stop,omitempty"`

	// workers and stepsOfDivision are for the manifest, and loss, this worker's in the epoch,
	// for its own file.
	workers, stepsOfDivision int
	loss                     metrics.Mean
}

// manifest is complete.json.
type manifest struct {
	// Version is 1 without cuts, 2 with cuts, 3 of adaptive training, and 4 in another order
	// than contiguous.
	Version int `json:"version"`
	position
	Workers int `json:"workers"`
	// StepsPerEpoch are the steps of the division.
	StepsPerEpoch int `json:"steps_per_epoch"`
	// Data is what the run reads; nil: its feed did not say, or an older version of Paragon
	// wrote it.
	Data *DataInfo `json:"data,omitempty"`
	checkpoint.Manifest
}

// version is that of the manifest: older programs know no cuts, no adaptive training and no other
// order.
func (p *position) version() int {
	if p.order() != sampler.Contiguous.String() {
		return 4
	}
	if p.Adapt != nil {
		return 3
	}
	if len(p.Cuts) > 0 {
		return 2
	}
	return 1
}

// order is the name of the order in which the run reads its epochs.
func (p *position) order() string { return cmp.Or(p.Order, sampler.Contiguous.String()) }

// readManifest reads that of a complete checkpoint.
func readManifest(ctx context.Context, place checkpoint.Place, s *checkpoint.Saved) (m manifest, err error) {
	own, err := s.ReadManifest(ctx, place, &m)
	if err != nil {
		return m, err
	}
	m.Manifest = own
	name := s.Name(checkpoint.ManifestFile)
	switch {
	case m.Steps != s.Steps || m.Epoch < 0 || m.Step < 0 || m.Version < 1 || m.Workers < 0 || m.Workers > cluster.MaxNodes:
		return m, fmt.Errorf("worker: checkpoint %s: %w: got version %d, epoch %d, step %d, %d workers, %d steps in all; want version 1 (2 with cuts, 3 of adaptive training, 4 in another order than contiguous), none below 0, at most %d workers, and the folder's %d steps",
			name, checkpoint.ErrDamaged, m.Version, m.Epoch, m.Step, m.Workers, m.Steps, cluster.MaxNodes, s.Steps)
	case m.Version != m.position.version():
		return m, noResume("worker: checkpoint %s: got version %d with %d cuts in the order %s, want version %d: a later version of Paragon wrote it", name, m.Version, len(m.Cuts), m.order(), m.position.version())
	}
	return m, nil
}
