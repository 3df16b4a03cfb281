package cudnn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/fake"
)

// What a builder could do wrong is refused when it is done, with the status that the library has
// for it, and the error says what and of which question. So the other tests would find it.
func TestMistakesInAGraphAreFound(t *testing.T) {
	good := image("x", BFloat16, 2, 8, 4, 4)
	for _, k := range []struct {
		name   string
		do     func(b *builder)
		status string
		text   string
	}{
		{"an attribute of another descriptor", func(b *builder) { b.ints(b.begin(tensorDescriptor), attrConvDilations, 1, 1) },
			"CUDNN_STATUS_BAD_PARAM (2000)", "CUDNN_ATTR_CONVOLUTION_DILATIONS, 2 of CUDNN_TYPE_INT64"},
		{"another type", func(b *builder) { b.ints(b.begin(tensorDescriptor), attrTensorDataType, 9) },
			"CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE (2010)", "CUDNN_ATTR_TENSOR_DATA_TYPE"},
		{"too many elements", func(b *builder) { b.ints(b.begin(tensorDescriptor), attrTensorUniqueID, 1, 2) },
			"CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT (2006)", "CUDNN_ATTR_TENSOR_UNIQUE_ID"},
		{"more than there is room for", func(b *builder) {
			b.ints(b.begin(tensorDescriptor), attrTensorDimensions, make([]int64, maxWords+1)...)
		},
			"", "got 1025 values, want at most 1024"},
		{"a tensor without a type", func(b *builder) {
			d := b.begin(tensorDescriptor)
			b.ints(d, attrTensorUniqueID, 1)
			b.end(d, tensorDescriptor)
		}, "CUDNN_STATUS_BAD_PARAM (2000)", "attribute 901 is not set"},
		{"a change after the end", func(b *builder) { b.ints(b.tensor(good), attrTensorUniqueID, 5) }, "CUDNN_STATUS_BAD_PARAM (2000)", "finalised"},
		{"a dimension of 0", func(b *builder) { b.tensor(image("x", BFloat16, 0, 8, 4, 4)) }, "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND (2005)", "is 0"},
		{"a type that is none", func(b *builder) { b.tensor(image("x", 99, 2, 8, 4, 4)) }, "CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE (3003)", ""},
		{"a descriptor of another kind", func(b *builder) { b.link(b.begin(forwardDescriptor), attrForwardConvDesc, b.tensor(good)) },
			"CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE (2012)", "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC"},
		{"a descriptor that is not finished", func(b *builder) { b.link(b.begin(forwardDescriptor), attrForwardX, b.begin(tensorDescriptor)) },
			"CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED (2004)", "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X"},
		{"no descriptor", func(b *builder) { b.link(b.begin(forwardDescriptor), attrForwardX, 0) }, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER (2002)", ""},
		{"a virtual tensor that nothing writes", func(b *builder) { b.pointwise(pointwiseReLU, b.tensor(good.asVirtual()), 0, b.tensor(good)) },
			"CUDNN_STATUS_BAD_PARAM (2000)", "read before it is written"},
		{"a tensor written twice", func(b *builder) {
			x, y := b.tensor(good), b.tensor(good)
			b.pointwise(pointwiseReLU, x, 0, y)
			b.pointwise(pointwiseReLU, x, 0, y)
		}, "CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES (2009)", "written twice"},
		{"shapes that differ", func(b *builder) {
			b.pointwise(pointwiseReLU, b.tensor(good), 0, b.tensor(image("y", BFloat16, 2, 8, 4, 5)))
		},
			"CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH (2008)", ""},
		{"a graph of nothing", func(b *builder) {}, "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT (2006)", "CUDNN_ATTR_OPERATIONGRAPH_OPS"},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := newBench(t)
			b.do(func() error {
				g := b.h.newGraph("the question")
				k.do(g)
				_, err := g.finish()
				if err == nil || !strings.Contains(err.Error(), k.status) || !strings.Contains(err.Error(), k.text) || !strings.Contains(err.Error(), "the question") {
					t.Errorf("got error %v, want %s with %q", err, k.status, k.text)
				}
				return nil
			})
		})
	}
}

// Two GPUs have a library each, on threads of their own, and do not disturb each other.
func TestTwoGPUsBesideEachOther(t *testing.T) {
	m := fake.New(t)
	c := shape(Float32, 1, 4, 3, 3, 4, 3, 3, 1, 1)
	var group sync.WaitGroup
	for gpu := range 2 {
		ctx := m.Context(gpu)
		lib, err := m.Search().Open(dl.CuDNN)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			err := ctx.Do(func() (err error) {
				h, err := Open(lib, ctx)
				if err != nil {
					return err
				}
				s, err := ctx.NewStream(0)
				if err != nil {
					return err
				}
				x, w, y := c.sizes()
				memory, err := ctx.Malloc(4096)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, ctx.DestroyStream(s), ctx.Free(memory), h.Close()) }()
				if x > 512 || w > 1024 || y > 512 {
					return fmt.Errorf("the test's memory is too small for %v", c)
				}
				if err := ctx.Memset8(memory, 0, 4096, s); err != nil {
					return err
				}
				for range 10 {
					plans, err := h.Forward(c)
					if err != nil {
						return err
					}
					for _, p := range plans {
						if p.Workspace() > 2048 {
							continue
						}
						if err := p.Run(s, memory+2048, memory, memory+512, memory+1536); err != nil {
							return err
						}
					}
					if err := errors.Join(ctx.Synchronize(s), Release(plans, nil)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("cuda:%d: %v", gpu, err)
			}
		})
	}
	group.Wait()
	if n := m.Count("cudnn_descriptors"); n != 0 {
		t.Errorf("%d descriptors were not destroyed", n)
	}
}

// A run with memory that was seen before costs two calls of the library at most and next to no
// memory.
func TestRunAllocatesLittle(t *testing.T) {
	b := newBench(t)
	c := shape(BFloat16, 1, 8, 1, 1, 8, 1, 1, 0, 1)
	p := plans(b, func() ([]*Plan, error) { return b.h.Forward(c) })[0]
	d := newPass(b, rand.New(rand.NewPCG(1, 1)), Forward, c)
	workspace := b.room(p.Workspace())
	b.do(func() error {
		n := testing.AllocsPerRun(50, func() {
			if err := p.Run(b.s, workspace, d.p[0], d.p[1], d.p[2]); err != nil {
				t.Error(err)
			}
		})
		if n > 1 {
			t.Errorf("a run allocates %v times, want at most once", n)
		}
		return nil
	})
}
