package record

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// inMemory writes text into an unnamed file in memory, which disappears with this process, however
// it ends. Until then processes of the same user can open it at the path. The file is nil where the
// system has no such files.
var inMemory = func(text []byte) (f *os.File, path string) {
	fd, err := unix.MemfdCreate("paragon-credentials", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, ""
	}
	path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	f = os.NewFile(uintptr(fd), path)
	if _, err = f.Write(text); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	}
	if err == nil {
		// Where there is no /proc nobody could open the memory by this path.
		_, err = os.Stat(path)
	}
	if err != nil {
		f.Close()
		return nil, ""
	}
	return f, path
}
