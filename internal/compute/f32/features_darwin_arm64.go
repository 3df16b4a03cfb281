package f32

import "golang.org/x/sys/unix"

// hasBFMMLA reports whether the CPU has FEAT_BF16, which golang.org/x/sys/cpu does not know.
var hasBFMMLA = func() bool {
	has, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && has != 0
}()
