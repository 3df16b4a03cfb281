package f32

// A Function is a function of one number, and its derivative.
type Function uint8

// The functions. σ(x) = 1/(1+exp(−x)), Φ(x) = ½(1+erf(x/√2)).
const (
	GELU      Function = iota // x·Φ(x)
	GELUTanh                  // ½x(1+tanh(√(2/π)(x+0.044715x³)))
	SiLU                      // x·σ(x)
	Sigmoid                   // σ(x)
	Tanh                      // tanh x
	LeakyReLU                 // x where x > 0, else slope·x
	ReLU6                     // min(max(x,0),6)
	Softplus                  // log(1+exp(x))
)

// Activate sets dst = f(x). At infinite x it is f's limit; a NaN stays. slope, at least 0, is
// LeakyReLU's.
func Activate(f Function, dst, x []float32, slope float32) {
	same2("Activate", len(dst), len(dst), len(x))
	n := activateWide(kernels.tile.path, f, dst, x, slope)
	activatePortable(f, dst[n:], x[n:], slope)
}

// ActivateGrad sets dx = f′·dy. kept is the function's argument, of Sigmoid, Tanh, LeakyReLU and
// ReLU6 its result. Where kept or dy is a NaN, dx is one.
func ActivateGrad(f Function, dx, dy, kept []float32, slope float32) {
	same2("ActivateGrad", len(dx), len(dy), len(kept))
	n := activateGradWide(kernels.tile.path, f, dx, dy, kept, slope)
	activateGradPortable(f, dx[n:], dy[n:], kept[n:], slope)
}

// SwiGLU sets dst = silu(gate)·up.
func SwiGLU(dst, gate, up []float32) {
	same2("SwiGLU", len(dst), len(gate), len(up))
	n := swigluWide(kernels.tile.path, dst, gate, up)
	swigluPortable(dst[n:], gate[n:], up[n:])
}

// SwiGLUGrad sets dgate = dz·up·silu′(gate) and dup = dz·silu(gate). They may be gate, up or dz, and
// are apart.
func SwiGLUGrad(dgate, dup, gate, up, dz []float32) {
	same("SwiGLUGrad", len(dgate), len(dup), len(gate), len(up), len(dz))
	n := swigluGradWide(kernels.tile.path, dgate, dup, gate, up, dz)
	swigluGradPortable(dgate[n:], dup[n:], gate[n:], up[n:], dz[n:])
}

// storedPart numbers of bfloat16 are widened at a time: two such arrays of float32 are a quarter of
// the first-level cache.
const storedPart = 1024

// ActivateBFloat16 is Activate of arrays that are stored as bfloat16: the result is rounded once.
func ActivateBFloat16(f Function, dst, x []uint16, slope float32) {
	same2("ActivateBFloat16", len(dst), len(dst), len(x))
	path := kernels.tile.path
	var room [storedPart]float32
	for lo := 0; lo < len(dst); lo += storedPart {
		hi := min(lo+storedPart, len(dst))
		v := room[:hi-lo]
		widenWide(path, v, x[lo:hi])
		Activate(f, v, v, slope)
		narrowWide(path, dst[lo:hi], v)
	}
}

// ActivateGradBFloat16 is ActivateGrad of arrays that are stored as bfloat16.
func ActivateGradBFloat16(f Function, dx, dy, kept []uint16, slope float32) {
	same2("ActivateGradBFloat16", len(dx), len(dy), len(kept))
	path := kernels.tile.path
	var room, more [storedPart]float32
	for lo := 0; lo < len(dx); lo += storedPart {
		hi := min(lo+storedPart, len(dx))
		v, d := room[:hi-lo], more[:hi-lo]
		widenWide(path, v, kept[lo:hi])
		widenWide(path, d, dy[lo:hi])
		ActivateGrad(f, d, d, v, slope)
		narrowWide(path, dx[lo:hi], d)
	}
}
