package kernels

import "github.com/paragon-train/paragon/internal/compute/cuda/drv"

// A BatchNormGrad is the gradient of a BatchNorm in training. With dz = dy where the ReLU let
// through, else 0 (dz = dy without ReLU), x̂ = (x−m)·invstd and sums over rows:
//
//	dbeta = Σ dz;  dgamma = Σ dz·x̂
//	dx = gamma·invstd·(dz − dbeta/Rows − x̂·dgamma/Rows)
//
// as op.BatchNorm2DGrad says; dz is also the gradient of the residual that was added.
//
// Where the ReLU let through is known from one of three: Mask, the bits that BatchNorm wrote, the
// fewest bytes where a residual was added; Y, its result, which is slow; Beta, if nothing was added
// and DAdd is not wanted: then it is computed anew from X, which costs no bytes. All three 0: there
// was no ReLU.
type BatchNormGrad struct {
	// Type is that of X, DY, Y, DX and DAdd.
	Type Type

	Rows, C int

	X, DY drv.Ptr

	// Mask, Y and Beta are 0 but for one at most.
	Mask, Y, Beta drv.Ptr

	// Gamma is (C) float32, as are Mean, InvStd, Beta, DGamma and DBeta.
	Gamma drv.Ptr

	Mean, InvStd drv.Ptr

	// DX may be DY, or DAdd; 0: it is not wanted.
	DX drv.Ptr

	// DAdd gets dz. It may be DY; 0: it is not wanted.
	DAdd drv.Ptr

	// DGamma is 0 if it is not wanted.
	DGamma drv.Ptr

	// DBeta is 0 if it is not wanted.
	DBeta drv.Ptr

	Workspace drv.Ptr // BatchNormWorkspace(C) bytes
}

// How the gradient learns where the ReLU let through, as src/norm.cu numbers it.
const (
	maskNone = iota
	maskByY
	maskByBits
	maskByX
)

func (b BatchNormGrad) mode() (mode, sources int) {
	if b.Y != 0 {
		mode, sources = maskByY, sources+1
	}
	if b.Mask != 0 {
		mode, sources = maskByBits, sources+1
	}
	if b.Beta != 0 {
		mode, sources = maskByX, sources+1
	}
	return mode, sources
}

// BatchNormGrad computes what of DX, DAdd, DGamma and DBeta is wanted: one pass for the sums, which
// also writes DAdd, and one for DX, which reads DAdd in place of DY if there is one.
func (k *Set) BatchNormGrad(s drv.Stream, b BatchNormGrad) error {
	l := k.begin("bn_grad_sums", s)
	l.types(b.Type).sizes(b.Rows, b.C).pointers(b.X, b.DY, b.Gamma, b.Mean, b.InvStd, b.Workspace)
	mode, sources := b.mode()
	if sources > 1 {
		return l.fail("want at most one of Mask, Y and Beta, got %d", sources)
	}
	byX := mode == maskByX && b.DAdd == 0
	if mode == maskByX && !byX {
		// A residual was added, so x does not tell.
		return l.fail("want Mask or Y where DAdd is wanted, got Beta")
	}
	if byX {
		l.name = "bn_grad_sums_x"
	}
	whole := aligned(b.X, b.DY, b.Y, b.DX, b.DAdd, b.Beta, b.Gamma, b.Mean, b.InvStd, b.Workspace)
	r := k.sums(b.Rows, b.C, whole, resident[l.name])
	if mode == maskByBits && r.vector == 1 {
		return l.fail("a Mask needs C a multiple of 8 and addresses that are multiples of 16, got C %d", b.C)
	}
	image, channel := b.Type.Size()*int64(b.Rows)*int64(b.C), 4*int64(b.C)
	masking := map[int]int64{maskByY: image, maskByBits: int64(b.Rows) * int64(b.C) / 8}[mode]
	partial := 2 * channel * int64(r.grid[0])
	read, written := 2*image+masking+channel, partial
	if byX {
		l.a.ptr(b.Workspace, b.X, b.DY, b.Gamma, b.Beta, b.Mean, b.InvStd).i32(b.Rows, b.C, r.lanes)
		read += 3 * channel
	} else {
		l.a.ptr(b.Workspace, b.DAdd, b.X, b.DY, b.Y, b.Mask, b.Mean).i32(b.Rows, b.C, r.lanes, mode)
	}
	if b.DAdd != 0 {
		written += image
	}
	if err := l.rows(suffix(b.Type), r, read, written); err != nil {
		return err
	}
	coefficients := b.Workspace + drv.Ptr((partial+15)/16*16)
	l = k.begin("bn_grad_finish", s)
	l.a.ptr(b.DGamma, b.DBeta, coefficients, b.InvStd, b.Workspace).i32(int(r.grid[0]), b.Rows, b.C)
	if err := l.channels(b.C, partial+channel, 4*channel); err != nil || b.DX == 0 {
		return err
	}
	if byX {
		l = k.begin("bn_grad_dx_x", s)
		r = k.rows(b.Rows, b.C, whole, resident[l.name])
		l.a.ptr(b.DX, b.X, b.DY, b.Gamma, b.Beta, b.Mean, b.InvStd, coefficients).i32(b.Rows, b.C, r.lanes)
		return l.rows(suffix(b.Type), r, 2*image+6*channel, image)
	}
	dz := b.DY
	if b.DAdd != 0 {
		dz, mode, masking = b.DAdd, maskNone, 0
	}
	l = k.begin("bn_grad_dx", s)
	r = k.rows(b.Rows, b.C, whole, resident[l.name])
	l.a.ptr(b.DX, b.X, dz, b.Y, b.Mask, b.Gamma, b.Mean, b.InvStd, coefficients).i32(b.Rows, b.C, r.lanes, mode)
	return l.rows(suffix(b.Type), r, 2*image+masking+5*channel, image)
}
