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

	numFunctions
)

// Activate sets dst = f(x). At infinite x it is f's limit; a NaN stays. slope, at least 0, is
// LeakyReLU's.
func Activate(f Function, dst, x []float32, slope float32) {
	same2("Activate", len(dst), len(dst), len(x))
	activatePortable(f, dst, x, slope)
}

// ActivateGrad sets dx = f′·dy. kept is the function's argument, of Sigmoid, Tanh, LeakyReLU and
// ReLU6 its result. Where kept or dy is a NaN, dx is one.
func ActivateGrad(f Function, dx, dy, kept []float32, slope float32) {
	same2("ActivateGrad", len(dx), len(dy), len(kept))
	activateGradPortable(f, dx, dy, kept, slope)
}

// SwiGLU sets dst = silu(gate)·up.
func SwiGLU(dst, gate, up []float32) {
	same2("SwiGLU", len(dst), len(gate), len(up))
	swigluPortable(dst, gate, up)
}

// SwiGLUGrad sets dgate = dz·up·silu′(gate) and dup = dz·silu(gate). Either may be nil, and they may
// be gate, up or dz.
func SwiGLUGrad(dgate, dup, gate, up, dz []float32) {
	same("SwiGLUGrad", len(gate), len(up), len(dz))
	swigluGradPortable(dgate, dup, gate, up, dz)
}
