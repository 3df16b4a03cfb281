package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/op"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// SetExamples says that later runs have n examples, at most the plan's Batch. Runs of a short batch
// are launched kernel by kernel: graphs and the library's normalisations are made for whole ones.
func (e *Executor) SetExamples(n int) { e.examples, e.empty = n, n == 0 }

// short reports whether the batch has fewer examples than room.
func (e *Executor) short() bool { return e.empty || e.examples < e.plan.Batch }

// rows is how many of some rows belong to examples of this run.
func (e *Executor) rows(rows int) int {
	if e.empty {
		return 0
	}
	return e.plan.Rows(rows, e.examples)
}

// zero writes zeros to an array's bytes from a place on.
func (e *Executor) zero(s drv.Stream, at drv.Ptr, from, bytes int64) error {
	if at == 0 || from == bytes {
		return nil
	}
	return e.gpu.context.Memset8(at+drv.Ptr(from), 0, bytes-from, s)
}

// exampleNumbers is how many of the n numbers of an MSE's argument belong to examples of this run.
func (e *Executor) exampleNumbers(v *plan.Value, mode *op.Mode) int64 {
	n := int64(v.Len())
	if mode == nil || len(v.Shape) == 0 {
		return n
	}
	return n / int64(v.Shape[0]) * int64(e.rows(v.Shape[0]))
}

// shortNorm is a normalisation by the statistics of the first images; all are normalised, as other
// executors do, but if none is there y is 0.
func (e *Executor) shortNorm(s drv.Stream, b kernels.BatchNorm, images, there int) error {
	all, channel := b.Rows, 4*int64(b.C)
	if there == 0 {
		if err := e.zero(s, b.Mean, 0, channel); err != nil {
			return err
		}
		if err := e.zero(s, b.InvStd, 0, channel); err != nil {
			return err
		}
		return e.zero(s, b.Y, 0, b.Type.Size()*int64(b.C)*int64(all))
	}
	b.Rows = all / images * there
	if err := e.gpu.kernels.BatchNormStatistics(s, b); err != nil {
		return err
	}
	b.Rows = all
	return e.gpu.kernels.BatchNormApply(s, b)
}

// shortNormGrad is its gradient; of the other images dx is 0.
func (e *Executor) shortNormGrad(s drv.Stream, b kernels.BatchNormGrad, lone *loneNorm, images, there int) error {
	all, channel := b.Rows, 4*int64(b.C)
	b.Rows = all / images * there
	if there == 0 {
		if err := e.zero(s, b.DGamma, 0, channel); err != nil {
			return err
		}
		if err := e.zero(s, b.DBeta, 0, channel); err != nil {
			return err
		}
	} else if there == 1 && lone != nil {
		if err := lone.gradient(s, b); err != nil {
			return err
		}
	} else if err := e.gpu.kernels.BatchNormGrad(s, b); err != nil {
		return err
	}
	row := b.Type.Size() * int64(b.C)
	if err := e.zero(s, b.DX, row*int64(b.Rows), row*int64(all)); err != nil {
		return err
	}
	return e.zero(s, b.DAdd, row*int64(b.Rows), row*int64(all))
}
