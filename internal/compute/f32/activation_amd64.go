package f32

// The functions below do whole vectors: n is a multiple of vectorLanes(path), and not 0.

func activateVectors(path Path, f Function, dst, x *float32, slope float32, n int) {
	if path == AVX512 {
		switch f {
		case GELU:
			geluAVX512(dst, x, n)
		case GELUTanh:
			geluTanhAVX512(dst, x, n)
		case SiLU:
			siluAVX512(dst, x, n)
		case Sigmoid:
			sigmoidAVX512(dst, x, n)
		case Tanh:
			tanhAVX512(dst, x, n)
		case LeakyReLU:
			leakyReLUAVX512(dst, x, slope, n)
		case ReLU6:
			relu6AVX512(dst, x, n)
		case Softplus:
			softplusAVX512(dst, x, n)
		}
		return
	}
	switch f {
	case GELU:
		geluAVX2(dst, x, n)
	case GELUTanh:
		geluTanhAVX2(dst, x, n)
	case SiLU:
		siluAVX2(dst, x, n)
	case Sigmoid:
		sigmoidAVX2(dst, x, n)
	case Tanh:
		tanhAVX2(dst, x, n)
	case LeakyReLU:
		leakyReLUAVX2(dst, x, slope, n)
	case ReLU6:
		relu6AVX2(dst, x, n)
	case Softplus:
		softplusAVX2(dst, x, n)
	}
}

func activateGradVectors(path Path, f Function, dx, dy, kept *float32, slope float32, n int) {
	if path == AVX512 {
		switch f {
		case GELU:
			geluGradAVX512(dx, dy, kept, n)
		case GELUTanh:
			geluTanhGradAVX512(dx, dy, kept, n)
		case SiLU:
			siluGradAVX512(dx, dy, kept, n)
		case Sigmoid:
			sigmoidGradAVX512(dx, dy, kept, n)
		case Tanh:
			tanhGradAVX512(dx, dy, kept, n)
		case LeakyReLU:
			leakyReLUGradAVX512(dx, dy, kept, slope, n)
		case ReLU6:
			relu6GradAVX512(dx, dy, kept, n)
		case Softplus:
			softplusGradAVX512(dx, dy, kept, n)
		}
		return
	}
	switch f {
	case GELU:
		geluGradAVX2(dx, dy, kept, n)
	case GELUTanh:
		geluTanhGradAVX2(dx, dy, kept, n)
	case SiLU:
		siluGradAVX2(dx, dy, kept, n)
	case Sigmoid:
		sigmoidGradAVX2(dx, dy, kept, n)
	case Tanh:
		tanhGradAVX2(dx, dy, kept, n)
	case LeakyReLU:
		leakyReLUGradAVX2(dx, dy, kept, slope, n)
	case ReLU6:
		relu6GradAVX2(dx, dy, kept, n)
	case Softplus:
		softplusGradAVX2(dx, dy, kept, n)
	}
}

func swigluVectors(path Path, dst, gate, up *float32, n int) {
	if path == AVX512 {
		swigluAVX512(dst, gate, up, n)
	} else {
		swigluAVX2(dst, gate, up, n)
	}
}

func swigluGradVectors(path Path, dgate, dup, gate, up, dz *float32, n int) {
	if path == AVX512 {
		swigluGradAVX512(dgate, dup, gate, up, dz, n)
	} else {
		swigluGradAVX2(dgate, dup, gate, up, dz, n)
	}
}

func expSumVectors(path Path, dst, x *float32, shift float32, n int) float32 {
	if path == AVX512 {
		return expSumAVX512(dst, x, shift, n)
	}
	return expSumAVX2(dst, x, shift, n)
}

func sumExpVectors(path Path, x *float32, shift float32, n int) float32 {
	if path == AVX512 {
		return sumExpAVX512(x, shift, n)
	}
	return sumExpAVX2(x, shift, n)
}

func scaledExpVectors(path Path, dst, x *float32, shift, scale, offset float32, n int) {
	if path == AVX512 {
		scaledExpAVX512(dst, x, shift, scale, offset, n)
	} else {
		scaledExpAVX2(dst, x, shift, scale, offset, n)
	}
}

func widenVectors(path Path, dst *float32, x *uint16, n int) {
	if path == AVX512 {
		fromBFloat16AVX512(dst, x, n)
	} else {
		fromBFloat16AVX2(dst, x, n)
	}
}

func narrowVectors(path Path, dst *uint16, x *float32, n int) {
	if path == AVX512 {
		toBFloat16AVX512(dst, x, n)
	} else {
		toBFloat16AVX2(dst, x, n)
	}
}
