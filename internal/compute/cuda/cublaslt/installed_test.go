package cublaslt

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/headers"
	"github.com/paragon-train/paragon/internal/compute/cuda/installed"
)

// Without a GPU the real library makes descriptors and takes attributes: of the sizes that we give
// them, and gives them back.
func TestTheInstalledLibraryTakesOurDescriptors(t *testing.T) {
	installed.Run(t, func(libs map[dl.Name]*dl.Library) {
		lib := libs[dl.CuBLASLt]
		h := &Handle{MaxWorkspace: DefaultMaxWorkspace, lib: lib, mem: &memory{scalars: [2]float32{1, 0}}}
		if err := h.resolve(lib); err != nil {
			t.Fatal(err)
		}
		if v := lib.Version(); v.Major < 12 || v != dl.EncodedVersion(dl.CuBLASLt, int(h.version)) {
			t.Errorf("version %v, as one number %d", v, h.version)
		}
		// ask also says how many bytes the library wrote; it refuses to write fewer than
		// the attribute has.
		ask := func(name string, object uintptr, attribute, room int) (value uint64, size int) {
			t.Helper()
			fn, err := lib.Symbol(name)
			if err != nil {
				t.Fatal(err)
			}
			h.mem.words[2], h.mem.words[3] = 0, 0
			if err := h.call(fn, name, "an attribute", object, uintptr(attribute), uintptr(unsafe.Pointer(&h.mem.words[2])), uintptr(room), uintptr(unsafe.Pointer(&h.mem.words[3]))); err != nil {
				t.Errorf("attribute %d: %v", attribute, err)
			}
			return h.mem.words[2], int(h.mem.words[3])
		}
		bias := Linear(512, 512, 10, BFloat16)
		relu, single, tf32 := bias, bias, Linear(64, 32, 16, Float32)
		relu.ReLU, single.BiasType, tf32.TF32 = true, Float32, true
		gradient := LinearGradWeight(512, 512, 10, BFloat16, Float32)
		gradient.BiasGrad = true
		for _, m := range []Matmul{bias, relu, single, tf32, gradient, LinearGradWeight(512, 512, 10, Float16, Float16), LinearGradInput(512, 512, 10, Float32)} {
			s, err := h.describe(m)
			if err != nil {
				t.Errorf("%v: %v", m, err)
				continue
			}
			flag := map[bool]uint64{true: 1}
			for _, a := range []struct {
				attribute, size int
				want            uint64
			}{{descTransA, 4, flag[m.TransB]}, {descTransB, 4, flag[m.TransA]}, {descEpilogue, 4, uint64(m.epilogue())},
				{descCompute, 4, uint64(m.compute())}, {descScaleType, 4, uint64(Float32)}} {
				if got, size := ask("cublasLtMatmulDescGetAttribute", s.desc, a.attribute, a.size); got != a.want || size != a.size {
					t.Errorf("%v: attribute %d is %d of %d bytes, want %d of %d", m, a.attribute, got, size, a.want, a.size)
				}
			}
			if m.Bias || m.BiasGrad {
				if got, size := ask("cublasLtMatmulDescGetAttribute", s.desc, descBiasPointer, 8); got != uint64(biasUnknown) || size != 8 {
					t.Errorf("%v: the bias is %#x of %d bytes, want %#x of 8", m, got, size, biasUnknown)
				}
				if got, size := ask("cublasLtMatmulDescGetAttribute", s.desc, descBiasDataType, 4); got != uint64(m.BiasType) || size != 4 {
					t.Errorf("%v: the bias' type is %d of %d bytes, want %d of 4", m, got, size, m.BiasType)
				}
			}
			for i, l := range m.layouts() {
				for attribute, want := range []uint64{layoutType: uint64(l.t), layoutOrder: 0, layoutRows: uint64(l.rows), layoutCols: uint64(l.cols), layoutLd: uint64(l.ld)} {
					size := 8
					if attribute <= layoutOrder {
						size = 4
					}
					if got, _ := ask("cublasLtMatrixLayoutGetAttribute", s.layouts[i], attribute, size); got != want {
						t.Errorf("%v: attribute %d of layout %d is %d, want %d", m, attribute, i, got, want)
					}
				}
			}
			if err := s.release(); err != nil || h.alive != 0 {
				t.Errorf("%v: release: %v, %d alive", m, err, h.alive)
			}
		}
		preference, err := h.preference("a test")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []struct {
			attribute, size int
			want            uint64
		}{{preferenceMaxWorkspace, 8, DefaultMaxWorkspace}, {preferenceReductionSchemes, 4, reductionComputeType}, {preferenceAlignmentA, 4, alignment},
			{preferenceAlignmentB, 4, alignment}, {preferenceAlignmentC, 4, alignment}, {preferenceAlignmentD, 4, alignment}} {
			if got, size := ask("cublasLtMatmulPreferenceGetAttribute", preference, a.attribute, a.size); got != a.want || size != a.size {
				t.Errorf("attribute %d of the preference is %d of %d bytes, want %d of %d", a.attribute, got, size, a.want, a.size)
			}
		}
		if err := h.call(h.fn.preferenceDestroy, "cublasLtMatmulPreferenceDestroy", "a test", preference); err != nil {
			t.Error(err)
		}
		names, err := lib.Symbol("cublasLtGetStatusName")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range headers.Values {
			if strings.HasPrefix(v.Name, "CUBLAS_STATUS_") {
				if got := dl.Text(h.caller.Call(names, uintptr(v.Want))); got != v.Name {
					t.Errorf("status %d: the library says %q, want %s", v.Want, got, v.Name)
				}
			}
		}
		// A wrong size is an error, so the right ones above say something.
		s, err := h.describe(bias)
		if err != nil {
			t.Fatal(err)
		}
		err = h.set(h.fn.descSet, "cublasLtMatmulDescSetAttribute", "a test", s.desc, descEpilogue, 1, 2)
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != 7 {
			t.Errorf("2 bytes for an epilogue: got %v, want CUBLAS_STATUS_INVALID_VALUE", err)
		}
		if err := s.release(); err != nil {
			t.Error(err)
		}
		switch err := h.create(h.fn.create, "cublasLtCreate", lib.Path, &h.handle); {
		case err == nil:
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		default:
			t.Log(err)
			if e, ok := errors.AsType[*Error](err); !ok || statusNames[e.Status] == "" {
				t.Errorf("got %v, want a status with a name", err)
			}
		}
	}, dl.CuBLASLt)
}

// Attributes that are only asked for here.
const (
	descCompute   = 0 // CUBLASLT_MATMUL_DESC_COMPUTE_TYPE
	descScaleType = 1 // CUBLASLT_MATMUL_DESC_SCALE_TYPE
	layoutType    = 0 // CUBLASLT_MATRIX_LAYOUT_TYPE
	layoutOrder   = 1 // CUBLASLT_MATRIX_LAYOUT_ORDER
	layoutRows    = 2 // CUBLASLT_MATRIX_LAYOUT_ROWS
	layoutCols    = 3 // CUBLASLT_MATRIX_LAYOUT_COLS
	layoutLd      = 4 // CUBLASLT_MATRIX_LAYOUT_LD
)
