package nn

import "syscall"

// machineMemory is the number of bytes of this machine's memory and swap; 0: it is not known.
func machineMemory() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return (int64(info.Totalram) + int64(info.Totalswap)) * int64(info.Unit)
}
