package cuda

import (
	"slices"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/drv"
	"github.com/paragon-train/paragon/internal/compute/cuda/kernels"
	"github.com/paragon-train/paragon/internal/compute/plan"
)

// A weightForms has the forms other than the host's in which ops of a plan read parameters and leave
// their gradients. The work behind and before a segment brings them from and to the host's form.
type weightForms struct {
	store *store
	host  *plan.Host

	// copies has, by parameter, its forms that ops of this plan read.
	copies map[int][]kernels.Tensor

	// unpacks has, by parameter, its gradient as the library makes it.
	unpacks map[int]*kernels.Tensor
}

func newWeightForms(s *store, host *plan.Host) *weightForms {
	return &weightForms{store: s, host: host, copies: make(map[int][]kernels.Tensor), unpacks: make(map[int]*kernels.Tensor)}
}

// copyOf is where a parameter that lies at at is in the form of t. A copy is made once in a run,
// when the parameter's value has come.
func (f *weightForms) copyOf(param int, at drv.Ptr, t kernels.Tensor) (drv.Ptr, error) {
	key := copyKey{unsafe.SliceData(f.host.Params[param]), t.Type, t.K, t.C, t.R * t.S, t.PadC}
	to, err := f.store.copyOf(key, tensorBytes(t))
	if err != nil {
		return 0, err
	}
	t.RowMajor, t.ChannelLast = at, to
	if !slices.Contains(f.copies[param], t) {
		f.copies[param] = append(f.copies[param], t)
	}
	return to, nil
}

// leave says that the library leaves the gradient of a parameter at at, in the form of t, and that
// the host's form is to be made of it at grad.
func (f *weightForms) leave(param int, grad, at drv.Ptr, t kernels.Tensor) {
	t.RowMajor, t.ChannelLast = grad, at
	f.unpacks[param] = &t
}

// plain reports whether a form is the row-major one.
func plain(t kernels.Tensor) bool {
	return t.Type == kernels.Float32 && t.R*t.S == 1 && t.PadK == t.K && t.PadC == t.C
}

func tensorBytes(t kernels.Tensor) int64 {
	return t.Type.Size() * int64(t.PadK) * int64(t.PadC) * int64(t.R*t.S)
}
