package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// A BatchNorm is one batch normalisation with the residual and the ReLU that follow. With x of Rows
// = N·H·W rows of C numbers, channels last, and sums over rows:
//
//	m_c = Σ x / Rows;  v_c = Σ (x−m_c)² / Rows;  invstd_c = 1/√(v_c+Eps)
//	y = gamma_c·invstd_c·x + (beta_c − m_c·gamma_c·invstd_c) [+ add], then [max(·, 0)]
//	RunMean ← (1−Momentum)·RunMean + Momentum·m_c
//	RunVar  ← (1−Momentum)·RunVar  + Momentum·v_c·Rows/max(Rows−1, 1)
//
// as op.BatchNorm2D says. Statistics lose no precision where the mean is large beside the
// deviation.
type BatchNorm struct {
	// Type is that of X, Y and Add.
	Type Type

	Rows, C int

	X, Y drv.Ptr // Y may be X or Add

	// Add is 0 if there is none.
	Add drv.Ptr

	ReLU bool

	Gamma, Beta drv.Ptr // (C) float32

	// Mean and InvStd are (C) float32, set by the training pass and read by its gradient.
	Mean, InvStd drv.Ptr

	// RunMean is (C) float32; 0 in training: it is not moved.
	RunMean drv.Ptr

	RunVar        drv.Ptr
	Eps, Momentum float64

	// Mask, if not 0, gets one bit for each number of y, 1 where y > 0 or is a NaN: bit i%8 of
	// byte i/8 for number i. It is an eighth of Rows·C bytes; C must be a multiple of 8 then.
	// The gradient reads it in place of y.
	Mask drv.Ptr

	// Workspace has BatchNormWorkspace(C) bytes. Training only.
	Workspace drv.Ptr
}

// BatchNorm is the training pass: BatchNormStatistics and then BatchNormApply.
func (k *Set) BatchNorm(s drv.Stream, b BatchNorm) error {
	if err := k.BatchNormStatistics(s, b); err != nil {
		return err
	}
	return k.BatchNormApply(s, b)
}

// BatchNormStatistics sets Mean and InvStd from X, and moves RunMean and RunVar if they are not 0.
func (k *Set) BatchNormStatistics(s drv.Stream, b BatchNorm) error {
	l := k.begin("bn_stats", s)
	l.types(b.Type).sizes(b.Rows, b.C).pointers(b.X, b.Mean, b.InvStd, b.Workspace)
	r := k.sums(b.Rows, b.C, aligned(b.X, b.Workspace), resident[l.name])
	l.a.ptr(b.Workspace, b.X).i32(b.Rows, b.C, r.lanes)
	partial := 8*int64(b.C)*int64(r.grid[0]) + 4*int64(r.grid[0])
	if err := l.rows(suffix(b.Type), r, b.bytes(), partial); err != nil {
		return err
	}
	l = k.begin("bn_finish", s)
	if (b.RunMean == 0) != (b.RunVar == 0) {
		return l.fail("want both RunMean and RunVar or neither")
	}
	l.a.ptr(b.Mean, b.InvStd, b.RunMean, b.RunVar, b.Workspace).i32(int(r.grid[0]), b.Rows, b.C).align(8).f64(b.Eps, b.Momentum)
	channel := 4 * int64(b.C)
	return l.channels(b.C, partial+2*channel, 4*channel)
}

// BatchNormApply sets Y, and Mask if it is not 0, from X, Add and what BatchNormStatistics set.
func (k *Set) BatchNormApply(s drv.Stream, b BatchNorm) error {
	return k.bnApply(s, b, b.Mean, b.InvStd, -1)
}

// BatchNormEval is evaluation: m and v are RunMean and RunVar, which it does not move; Mean, InvStd
// and Workspace are not used.
func (k *Set) BatchNormEval(s drv.Stream, b BatchNorm) error {
	return k.bnApply(s, b, b.RunMean, b.RunVar, float32(b.Eps))
}

// bnApply normalises by mean and deviation: an inverse deviation with eps < 0, else a variance.
func (k *Set) bnApply(s drv.Stream, b BatchNorm, mean, deviation drv.Ptr, eps float32) error {
	l := k.begin("bn_apply", s)
	l.a.ptr(b.Y, b.X)
	if b.Add != 0 {
		l.name = "bn_apply_add"
		l.a.ptr(b.Add)
	}
	l.types(b.Type).sizes(b.Rows, b.C).pointers(b.X, b.Y, b.Gamma, b.Beta, mean, deviation)
	r := k.rows(b.Rows, b.C, aligned(b.X, b.Y, b.Add, b.Gamma, b.Beta, mean, deviation), resident[l.name])
	if b.Mask != 0 && r.vector == 1 {
		return l.fail("a Mask needs C a multiple of 8 and addresses that are multiples of 16, got C %d", b.C)
	}
	l.a.ptr(b.Gamma, b.Beta, mean, deviation, b.Mask).i32(b.Rows, b.C, r.lanes).flag(b.ReLU).f32(eps)
	read, written := b.bytes()+16*int64(b.C), b.bytes()
	if b.Add != 0 {
		read += b.bytes()
	}
	if b.Mask != 0 {
		written += b.maskBytes()
	}
	return l.rows(suffix(b.Type), r, read, written)
}

func (b BatchNorm) bytes() int64     { return b.Type.Size() * int64(b.Rows) * int64(b.C) }
func (b BatchNorm) maskBytes() int64 { return int64(b.Rows) * int64(b.C) / 8 }

// BatchNormWorkspace is the number of bytes of a BatchNorm's and of a BatchNormGrad's Workspace for
// c channels. Its address is a multiple of 16.
func (k *Set) BatchNormWorkspace(c int) int64 {
	return (8*int64(c)+4)*int64(k.maxBlocks()) + 16*int64(c)
}
