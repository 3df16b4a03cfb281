//go:build amd64 || arm64

package f32

import "math"

// coefficients is the array of constants that the kernels take.
func (u *Update) coefficients() [23]float32 {
	return [...]float32{
		u.Scale, u.Clip, -u.Clip, u.Shrink, u.Rate, u.Decay, u.Momentum,
		u.Beta1, u.Rest1, u.Beta2, u.Rest2, u.Correction, u.Root, u.Epsilon, u.Keep,
		u.Inverse, u.Beta, u.L1, -u.L1, squarable, -squarable, math.MaxFloat32, u.Factor,
	}
}
