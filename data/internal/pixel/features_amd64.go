package pixel

import "golang.org/x/sys/cpu"

// fast says that the assembly can run. Tests switch it off.
var fast = cpu.X86.HasAVX2
