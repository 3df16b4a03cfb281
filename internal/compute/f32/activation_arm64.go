package f32

// The functions below do whole vectors: n is a multiple of vectorLanes(path), and not 0.

func activateVectors(_ Path, f Function, dst, x *float32, slope float32, n int) {
	switch f {
	case GELU:
		geluNEON(dst, x, n)
	case GELUTanh:
		geluTanhNEON(dst, x, n)
	case SiLU:
		siluNEON(dst, x, n)
	case Sigmoid:
		sigmoidNEON(dst, x, n)
	case Tanh:
		tanhNEON(dst, x, n)
	case LeakyReLU:
		leakyReLUNEON(dst, x, slope, n)
	case ReLU6:
		relu6NEON(dst, x, n)
	case Softplus:
		softplusNEON(dst, x, n)
	}
}

func activateGradVectors(_ Path, f Function, dx, dy, kept *float32, slope float32, n int) {
	switch f {
	case GELU:
		geluGradNEON(dx, dy, kept, n)
	case GELUTanh:
		geluTanhGradNEON(dx, dy, kept, n)
	case SiLU:
		siluGradNEON(dx, dy, kept, n)
	case Sigmoid:
		sigmoidGradNEON(dx, dy, kept, n)
	case Tanh:
		tanhGradNEON(dx, dy, kept, n)
	case LeakyReLU:
		leakyReLUGradNEON(dx, dy, kept, slope, n)
	case ReLU6:
		relu6GradNEON(dx, dy, kept, n)
	case Softplus:
		softplusGradNEON(dx, dy, kept, n)
	}
}

func swigluVectors(_ Path, dst, gate, up *float32, n int) {
	swigluNEON(dst, gate, up, n)
}

func swigluGradVectors(_ Path, dgate, dup, gate, up, dz *float32, n int) {
	swigluGradNEON(dgate, dup, gate, up, dz, n)
}

func expSumVectors(_ Path, dst, x *float32, shift float32, n int) float32 {
	return expSumNEON(dst, x, shift, n)
}

func sumExpVectors(_ Path, x *float32, shift float32, n int) float32 {
	return sumExpNEON(x, shift, n)
}

func scaledExpVectors(_ Path, dst, x *float32, shift, scale, offset float32, n int) {
	scaledExpNEON(dst, x, shift, scale, offset, n)
}

func widenVectors(_ Path, dst *float32, x *uint16, n int) { fromBFloat16NEON(dst, x, n) }

func narrowVectors(_ Path, dst *uint16, x *float32, n int) {
	if hasBFMMLA {
		toBFloat16BF16(dst, x, n)
	} else {
		toBFloat16NEON(dst, x, n)
	}
}
