package f32

import "golang.org/x/sys/unix"

// hasBFMMLA reports whether the CPU and the kernel have FEAT_BF16, which golang.org/x/sys/cpu does
// not know.
var hasBFMMLA = func() bool {
	const hwcap2, bf16 = 26, 1 << 14 // AT_HWCAP2, HWCAP2_BF16
	vector, _ := unix.Auxv()
	for _, v := range vector {
		if v[0] == hwcap2 {
			return v[1]&bf16 != 0
		}
	}
	return false
}()
