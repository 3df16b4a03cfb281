//go:build !linux && !darwin

package f32

// hasBFMMLA is false where nothing says whether the CPU has FEAT_BF16.
const hasBFMMLA = false
