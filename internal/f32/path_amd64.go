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
	}
	return false
}

func kernelsFor(p Path) *kernelSet {
	switch p {
	case AVX512:
		return &setAVX512
	case AVX2:
		return &setAVX2
	}
	return &portable
}

// The sets of the two assembly paths: the portable one, with what there is in assembly put over it.
var (
	setAVX2   = assembled(AVX2)
	setAVX512 = assembled(AVX512)
)

func assembled(p Path) kernelSet {
	s := portable
	switch p {
	case AVX2:
		s.tile = Tile{Rows: 6, Cols: 16, OuterRows: []int{6, 4, 2}, path: AVX2}
	case AVX512:
		s.tile = Tile{Rows: 12, Cols: 32, OuterRows: []int{12, 8, 4}, path: AVX512}
	}
	return s
}
