package f32

import "golang.org/x/sys/cpu"

func hasPath(p Path) bool {
	switch p {
	case Portable:
		return true
	case AVX2:
		return cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2
	case AVX512:
		return hasPath(AVX2) && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
	case AMX:
		has, _ := tileUnit()
		return has && hasPath(AVX512)
	}
	return false
}

func kernelsFor(p Path) *kernelSet {
	switch p {
	case AVX512, AMX:
		// Beside products of bfloat16 they are the same.
		return &setAVX512
	case AVX2:
		return &setAVX2
	}
	return &portable
}

var (
	setAVX2   = assembled(AVX2)
	setAVX512 = assembled(AVX512)
)
