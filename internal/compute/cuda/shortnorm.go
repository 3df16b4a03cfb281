package cuda

import (
	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
)

// short is a normalisation by the statistics of the first images; all are normalised, as other
// executors do, but if none is there y is 0.
func (f *norms) short(s drv.Stream, b kernels.BatchNorm, images, there int) error {
	all, channel := b.Rows, 4*int64(b.C)
	if there == 0 {
		if err := f.gpu.zero(s, b.Mean, 0, channel); err != nil {
			return err
		}
		if err := f.gpu.zero(s, b.InvStd, 0, channel); err != nil {
			return err
		}
		return f.gpu.zero(s, b.Y, 0, b.Type.Size()*int64(b.C)*int64(all))
	}
	b.Rows = all / images * there
	if err := f.gpu.kernels.BatchNormStatistics(s, b); err != nil {
		return err
	}
	b.Rows = all
	return f.gpu.kernels.BatchNormApply(s, b)
}

// shortGrad is its gradient; of the other images dx is 0.
func (f *norms) shortGrad(s drv.Stream, b kernels.BatchNormGrad, lone *loneNorm, images, there int) error {
	all, channel := b.Rows, 4*int64(b.C)
	b.Rows = all / images * there
	if there == 0 {
		if err := f.gpu.zero(s, b.DGamma, 0, channel); err != nil {
			return err
		}
		if err := f.gpu.zero(s, b.DBeta, 0, channel); err != nil {
			return err
		}
	} else if there == 1 && lone != nil {
		if err := lone.gradient(s, b); err != nil {
			return err
		}
	} else if err := f.gpu.kernels.BatchNormGrad(s, b); err != nil {
		return err
	}
	row := b.Type.Size() * int64(b.C)
	if err := f.gpu.zero(s, b.DX, row*int64(b.Rows), row*int64(all)); err != nil {
		return err
	}
	return f.gpu.zero(s, b.DAdd, row*int64(b.Rows), row*int64(all))
}
