package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/paragon-train/paragon/internal/cuda/cublaslt"
	"github.com/paragon-train/paragon/internal/cuda/cudnn"
	"github.com/paragon-train/paragon/internal/cuda/dl"
	"github.com/paragon-train/paragon/internal/cuda/drv"
	"github.com/paragon-train/paragon/internal/cuda/kernels"
	"github.com/paragon-train/paragon/internal/cuda/nvrtc"
)

// A device is the GPU with the libraries, and memory that is given between guards and filled with poison.
type device struct {
	*drv.Context
	search dl.Search
	set    *kernels.Set
	dnn    *cudnn.Handle
	blas   *cublaslt.Handle
	s      drv.Stream
	stage  []byte // pinned
	blocks []block
	err    error // the first of putting and getting numbers
}

type block struct {
	at    drv.Ptr // of the numbers; the guards lie around
	bytes int64
}

const (
	guardBytes = 256
	poison     = 0xff // makes floating point numbers of all types not a number
	stageBytes = 8 << 20
)

// use opens the GPU and runs f on its thread.
func (c *checker) use(f func(d *device) error) error {
	d := &device{}
	lib, err := d.search.Open(dl.CUDA)
	if err != nil {
		return err
	}
	driver, err := drv.Open(lib)
	if err != nil {
		return err
	}
	d.search.Major, _ = driver.Version()
	if d.Context, err = driver.NewContext(c.device); err != nil {
		return err
	}
	err = d.Do(func() error {
		var err error
		if d.s, err = d.NewStream(0); err != nil {
			return err
		}
		if d.stage, err = d.HostAlloc(stageBytes); err != nil {
			return err
		}
		return f(d)
	})
	// What a lost GPU holds goes with the process.
	if err == nil {
		err = d.Do(func() error { return errors.Join(d.closeLibraries(), d.HostFree(d.stage), d.DestroyStream(d.s)) })
		err = errors.Join(err, d.Close())
	}
	return err
}

func (d *device) closeLibraries() error {
	var errs []error
	if d.set != nil {
		errs = append(errs, d.set.Close())
	}
	if d.dnn != nil {
		errs = append(errs, d.dnn.Close())
	}
	if d.blas != nil {
		errs = append(errs, d.blas.Close())
	}
	return errors.Join(errs...)
}

// withKernels loads the kernels.
func (d *device) withKernels() (err error) {
	d.set, err = kernels.LoadWith(d.Context, func(source string, compute [2]int) ([]byte, error) {
		image, _, err := d.compile(source, compute)
		return image, err
	})
	return err
}

// compile compiles the kernels' source with NVRTC.
func (d *device) compile(source string, compute [2]int) (image []byte, log string, err error) {
	lib, err := d.search.Open(dl.NVRTC)
	if err != nil {
		return nil, "", err
	}
	n, err := nvrtc.Open(lib)
	if err != nil {
		return nil, "", err
	}
	return n.Compile(nvrtc.Program{Name: "kernels.cu", Source: source, Compute: compute, Options: []string{"--std=c++17"}})
}

func (d *device) withCuDNN() error {
	lib, err := d.search.Open(dl.CuDNN)
	if err == nil {
		d.dnn, err = cudnn.Open(lib, d.Context)
	}
	return err
}

func (d *device) withCuBLASLt() error {
	lib, err := d.search.Open(dl.CuBLASLt)
	if err == nil {
		d.blas, err = cublaslt.Open(lib, d.Context)
	}
	return err
}

// room is memory of so many bytes between guards, all poison.
func (d *device) room(bytes int64) drv.Ptr {
	if d.err != nil {
		return 0
	}
	p, err := d.Malloc(bytes + 2*guardBytes)
	if err == nil {
		err = d.Memset8(p, poison, bytes+2*guardBytes, d.s)
	}
	if err != nil {
		d.err = err
		return 0
	}
	d.blocks = append(d.blocks, block{p + guardBytes, bytes})
	return p + guardBytes
}

func (d *device) empty(t kernels.Type, n int) drv.Ptr { return d.room(int64(n) * t.Size()) }

// release gives the memory back. It is an error if a guard is not as it was.
func (d *device) release() error {
	err := d.err
	d.err = nil
	for _, b := range d.blocks {
		for _, at := range [2]drv.Ptr{b.at - guardBytes, b.at + drv.Ptr(b.bytes)} {
			if err != nil {
				break
			}
			var m []byte
			if m, err = d.bytes(at, guardBytes); err != nil {
				break
			}
			for i, v := range m {
				if v != poison {
					err = fmt.Errorf("byte %d from a buffer of %d bytes was written", int64(at)-int64(b.at)+int64(i), b.bytes)
					break
				}
			}
		}
		err = errors.Join(err, d.Free(b.at-guardBytes))
	}
	d.blocks = nil
	return err
}

// bytes reads device memory.
func (d *device) bytes(p drv.Ptr, n int) ([]byte, error) {
	out := make([]byte, 0, n)
	for len(out) < n {
		part := min(n-len(out), len(d.stage))
		if err := errors.Join(d.CopyToHost(unsafe.Pointer(&d.stage[0]), p+drv.Ptr(len(out)), int64(part), d.s), d.Synchronize(d.s)); err != nil {
			return nil, err
		}
		out = append(out, d.stage[:part]...)
	}
	return out, nil
}

// write writes device memory.
func (d *device) write(p drv.Ptr, m []byte) error {
	for at := 0; at < len(m); at += len(d.stage) {
		n := copy(d.stage, m[at:])
		if err := errors.Join(d.CopyToDevice(p+drv.Ptr(at), unsafe.Pointer(&d.stage[0]), int64(n), d.s), d.Synchronize(d.s)); err != nil {
			return err
		}
	}
	return nil
}

// put is memory with these numbers, rounded to the type, and rounds v itself.
func (d *device) put(t kernels.Type, v []float64) drv.Ptr {
	p := d.empty(t, len(v))
	if d.err != nil {
		return 0
	}
	size := int(t.Size())
	m := make([]byte, len(v)*size)
	for i, x := range v {
		at := m[i*size:]
		switch t {
		case kernels.Uint8:
			at[0] = uint8(x)
		case kernels.Int32:
			binary.LittleEndian.PutUint32(at, uint32(int32(x)))
		case kernels.Float32:
			v[i] = float64(float32(x))
			binary.LittleEndian.PutUint32(at, math.Float32bits(float32(x)))
		default:
			h := narrow(t, float32(x))
			v[i] = float64(wide(t, h))
			binary.LittleEndian.PutUint16(at, h)
		}
	}
	d.err = d.write(p, m)
	return p
}

// get reads n numbers.
func (d *device) get(t kernels.Type, p drv.Ptr, n int) []float64 {
	out := make([]float64, n)
	if d.err != nil {
		return out
	}
	size := int(t.Size())
	var m []byte
	if m, d.err = d.bytes(p, n*size); d.err != nil {
		return out
	}
	for i := range out {
		at := m[i*size:]
		switch t {
		case kernels.Uint8:
			out[i] = float64(at[0])
		case kernels.Int32:
			out[i] = float64(int32(binary.LittleEndian.Uint32(at)))
		case kernels.Float32:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(at)))
		default:
			out[i] = float64(wide(t, binary.LittleEndian.Uint16(at)))
		}
	}
	return out
}

// narrow rounds to a 16-bit type, to nearest even.
func narrow(t kernels.Type, x float32) uint16 {
	u := math.Float32bits(x)
	if t == kernels.BFloat16 {
		if x != x {
			return 0x7fff
		}
		return uint16((u + 0x7fff + u>>16&1) >> 16)
	}
	sign := uint16(u >> 16 & 0x8000)
	a := math.Abs(float64(x))
	switch {
	case x != x:
		return 0x7fff
	case a >= 65520:
		return sign | 0x7c00
	case a < 0x1p-14:
		return sign | uint16(math.RoundToEven(a*0x1p24))
	}
	_, e := math.Frexp(a) // a in [2^(e-1), 2^e)
	m := math.RoundToEven(math.Ldexp(a, 11-e))
	return sign | uint16((e+13)<<10+int(m))
}

// wide is the number that 16 bits stand for.
func wide(t kernels.Type, h uint16) float32 {
	if t == kernels.BFloat16 {
		return math.Float32frombits(uint32(h) << 16)
	}
	v := math.Ldexp(float64(h&1023), -24)
	switch e := int(h >> 10 & 31); e {
	case 0:
	case 31:
		v = math.Inf(1)
		if h&1023 != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+float64(h&1023), e-25)
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return float32(v)
}

// random is n numbers of a normal distribution.
func random(seed uint64, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// distance is |got − want| / |want|; NaN if a number is none, such as one that was never written.
func distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.NaN()
	}
	var off, size float64
	for i, w := range want {
		off += (got[i] - w) * (got[i] - w)
		size += w * w
	}
	if off == 0 {
		return 0
	}
	return math.Sqrt(off / size)
}
