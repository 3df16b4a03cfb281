package amxtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// timeout is of a traced process; a few thousand instructions take a second.
const timeout = 3 * time.Minute

// runTraced runs t in a traced process whose request for tiles is granted or not.
func runTraced(t *testing.T, detect any, granted bool) {
	t.Helper()
	if !cpu.X86.HasAVX512BF16 {
		t.Skip("this CPU has no AVX512_BF16, which code beside the tile unit needs")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := &process{threads: make(map[int]*unit), detect: reflect.ValueOf(detect).Pointer(), granted: granted}
	done := make(chan error)
	go func() {
		// A process is traced by one thread, which ends with the goroutine.
		runtime.LockOSThread()
		done <- p.run(exe, []string{exe, "-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$", "-test.count=1", "-test.v"}, out)
	}()
	if err = <-done; errors.Is(err, errNotPermitted) {
		t.Skip("this process may not trace its children: ", err)
	}
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	switch {
	case err != nil:
		t.Fatalf("traced: %v\n%s", err, text)
	case p.covered != 0:
		t.Fatalf("traced: the program did not call the function that looks at the CPU's features: is it inlined (go:noinline)?\n%s", text)
	case !p.status.Exited() || p.status.ExitStatus() != 0:
		t.Fatalf("traced: %s\n%s", describe(p.status), text)
	case !bytes.Contains(text, []byte("--- PASS: "+t.Name())):
		t.Fatalf("traced: %s did not run\n%s", t.Name(), text)
	case p.asked == 0:
		t.Fatalf("traced: the program did not ask for the permission to use tiles\n%s", text)
	case granted && p.executed == 0:
		t.Fatalf("traced: no instruction of the tile unit was met\n%s", text)
	}
	t.Logf("emulated %d instructions of the tile unit in %d stops, %d signals passed", p.executed, p.stops, p.passed)
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return fmt.Sprintf("ended by %v", s.Signal())
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}

var errNotPermitted = errors.New("ptrace is not permitted")

// A process is one that is traced. All of its methods run on the thread that traces it.
type process struct {
	pid int

	// threads are the tiles of each thread, by its ID.
	threads map[int]*unit

	// detect is where the function is that looks at the features, and covered the byte there while
	// a breakpoint stands in its place.
	detect  uintptr
	covered byte

	// asked is the thread that has asked for the permission for tile data; told says that it got
	// its answer, and granted which.
	asked   int
	told    bool
	granted bool

	status syscall.WaitStatus

	executed, stops, passed int
}

// run starts the program under trace and follows all of its threads until it ends.
func (p *process) run(exe string, argv []string, out *os.File) error {
	path := "PARAGON_CPU=amx"
	if !p.granted {
		path = "PARAGON_CPU="
	}

	// Of two values a Go program takes the first.
	env := append([]string{path, traced + "=1"}, os.Environ()...)
	var err error
	p.pid, err = syscall.ForkExec(exe, argv, &syscall.ProcAttr{Env: env, Files: []uintptr{0, out.Fd(), out.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	if errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: %w", errNotPermitted, err)
	} else if err != nil {
		return err
	}
	timer := time.AfterFunc(timeout, func() { _ = syscall.Kill(p.pid, syscall.SIGKILL) })
	defer timer.Stop()
	if _, err := syscall.Wait4(p.pid, &p.status, syscall.WALL, nil); err != nil {
		return err
	}
	if !p.status.Stopped() {
		return fmt.Errorf("%w: the process ended at once: %s", errNotPermitted, describe(p.status))
	}
	if err := p.follow(); err != nil {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(p.pid, nil, syscall.WALL, nil)
		return err
	}
	return nil
}

// follow handles stops until the process has ended.
func (p *process) follow() error {
	if err := syscall.PtraceSetOptions(p.pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return fmt.Errorf("%w: %w", errNotPermitted, err)
	}
	slide, err := slideOf(p.pid)
	if err != nil {
		return err
	}
	p.detect += slide
	var code [1]byte
	if _, err := syscall.PtracePeekText(p.pid, p.detect, code[:]); err != nil {
		return err
	}
	p.covered = code[0]

	// 0xcc is INT3, a breakpoint.
	if _, err := syscall.PtracePokeText(p.pid, p.detect, []byte{0xcc}); err != nil {
		return err
	}
	p.threads[p.pid] = &unit{}
	if err := p.resume(p.pid, 0); err != nil {
		return err
	}
	for {
		// Processes that other threads of this one have started are theirs.
		tid, err := syscall.Wait4(-1, &p.status, syscall.WALL|unix.WNOTHREAD, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return err
		case !p.status.Stopped():
			if delete(p.threads, tid); tid == p.pid {
				return nil
			}
			continue
		}
		p.stops++

		// A thread may be killed while it is stopped.
		if err := p.stop(tid, slide); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
}

// stop handles one stop of a thread and lets it go on.
func (p *process) stop(tid int, slide uintptr) error {
	u, known := p.threads[tid]
	if !known {
		u = &unit{}
		p.threads[tid] = u
	}
	signal := p.status.StopSignal()
	switch {
	// A thread begins, or has begun another one.
	case !known && signal == syscall.SIGSTOP, p.status.TrapCause() > 0:
		return p.resume(tid, 0)
	case signal == syscall.SIGTRAP|0x80:
		return p.systemCall(tid)
	case signal == syscall.SIGTRAP && p.covered != 0:
		var r syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(tid, &r); err != nil {
			return err
		}
		if uintptr(r.Rip) == p.detect+1 {
			return p.pretend(tid, &r, slide)
		}
	case signal == syscall.SIGILL:
		n, err := p.execute(tid, u)
		if err != nil {
			return err
		}
		if p.executed += n; n > 0 {
			return syscall.PtraceCont(tid, 0)
		}
	}
	p.passed++
	return p.resume(tid, int(signal))
}

// resume lets a thread go on, after a signal or 0. Until the permission for tile data has been
// asked for, it stops at system calls: any thread may ask.
func (p *process) resume(tid, signal int) error {
	if p.told {
		return syscall.PtraceCont(tid, signal)
	}
	return syscall.PtraceSyscall(tid, signal)
}

// pretend sets the features of the tile unit before the program looks at them, and takes the
// breakpoint away.
func (p *process) pretend(tid int, r *syscall.PtraceRegs, slide uintptr) error {
	for _, feature := range []*bool{&cpu.X86.HasAMXTile, &cpu.X86.HasAMXBF16} {
		if _, err := syscall.PtracePokeData(tid, uintptr(unsafe.Pointer(feature))+slide, []byte{1}); err != nil {
			return err
		}
	}
	if _, err := syscall.PtracePokeText(tid, p.detect, []byte{p.covered}); err != nil {
		return err
	}
	p.covered = 0
	r.Rip--
	if err := syscall.PtraceSetRegs(tid, r); err != nil {
		return err
	}
	return p.resume(tid, 0)
}

// systemCall answers the request for tile data, in place of the kernel.
func (p *process) systemCall(tid int) error {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &r); err != nil {
		return err
	}

	// They are ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA.
	const requestPermission, tileData = 0x1023, 18
	switch {
	// The call that was left out ends.
	case p.asked == tid && !p.told:
		if r.Rax = 0; !p.granted {
			r.Rax = ^uint64(syscall.EPERM) + 1
		}
		if err := syscall.PtraceSetRegs(tid, &r); err != nil {
			return err
		}
		p.told = true
	case r.Orig_rax == syscall.SYS_ARCH_PRCTL && r.Rdi == requestPermission && r.Rsi == tileData:
		p.asked = tid

		// This is the number of no call.
		r.Orig_rax = ^uint64(0)
		if err := syscall.PtraceSetRegs(tid, &r); err != nil {
			return err
		}
	}
	return p.resume(tid, 0)
}

// execute executes the instructions of the tile unit at which a thread stands, and returns how many
// these were.
func (p *process) execute(tid int, u *unit) (int, error) {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &r); err != nil {
		return 0, err
	}
	var code [96]byte
	local := unix.Iovec{Base: &code[0]}
	local.SetLen(len(code))

	// There are fewer bytes at the end of all code.
	n, err := p.read([]unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(r.Rip), Len: len(code)}})
	if err != nil {
		return 0, err
	}
	at, count := 0, 0
	for {
		in, ok := decode(code[at:n])
		if !ok {
			break
		}
		if err := p.do(u, in, &r, r.Rip+uint64(at+in.size)); err != nil {
			return 0, fmt.Errorf("instruction % x at %#x: %w", code[at:at+in.size], r.Rip+uint64(at), err)
		}
		at += in.size
		count++
	}
	if count == 0 {
		return 0, nil
	}
	r.Rip += uint64(at)
	return count, syscall.PtraceSetRegs(tid, &r)
}

// do executes one instruction; next is the address of the one behind it.
func (p *process) do(u *unit, in instruction, r *syscall.PtraceRegs, next uint64) error {
	general := func(i int) uint64 {
		if i < 0 {
			return 0
		}
		return [...]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}[i]
	}
	address := general(in.base) + uint64(in.disp)
	if in.relative {
		address += next
	}
	stride := general(in.index) << in.scale
	switch in.op {
	case loadConfig, storeConfig:
		// In memory it is one row; the index is that of an ordinary address.
		row := [maxRows][rowBytes]byte{u.config}
		if in.op == storeConfig {
			return tileRows(p.write, &row, address+stride, 0, 1, len(u.config))
		}
		if err := tileRows(p.read, &row, address+stride, 0, 1, len(u.config)); err != nil {
			return err
		}
		return u.configure(row[0])
	case release:
		*u = unit{}
		return nil
	case dot:
		return u.dotBFloat16(in.tile, in.a, in.b)
	}
	if !u.configured {
		return fmt.Errorf("the tile registers are not configured")
	}
	tile := &u.tiles[in.tile]
	if in.op != store {
		*tile = [maxRows][rowBytes]byte{}
	}
	if in.op == zero {
		return nil
	}
	move := p.read
	if in.op == store {
		move = p.write
	}
	return tileRows(move, tile, address, stride, u.rows(in.tile), u.rowBytes(in.tile))
}

// A mover moves bytes between this process and the traced one.
type mover func(local []unix.Iovec, remote []unix.RemoteIovec) (int, error)

func (p *process) read(local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	return unix.ProcessVMReadv(p.pid, local, remote, 0)
}

func (p *process) write(local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	return unix.ProcessVMWritev(p.pid, local, remote, 0)
}

// tileRows moves rows between a tile and memory: row i is at the address plus i strides.
func tileRows(move mover, tile *[maxRows][rowBytes]byte, address, stride uint64, rows, size int) error {
	local, remote := make([]unix.Iovec, rows), make([]unix.RemoteIovec, rows)
	for i := range rows {
		local[i].Base = &tile[i][0]
		local[i].SetLen(size)
		remote[i] = unix.RemoteIovec{Base: uintptr(address + uint64(i)*stride), Len: size}
	}
	n, err := move(local, remote)
	if err == nil && n != rows*size {
		err = fmt.Errorf("%d of %d bytes", n, rows*size)
	}
	if err != nil {
		return fmt.Errorf("%d rows of %d bytes at %#x, %d apart: %w", rows, size, address, int64(stride), err)
	}
	return nil
}

// slideOf is how far the code of a copy of this program lies from this one's.
func slideOf(pid int) (uintptr, error) {
	first := func(pid string) (uintptr, error) {
		maps, err := os.ReadFile("/proc/" + pid + "/maps")
		if err != nil {
			return 0, err
		}
		var at uintptr
		_, err = fmt.Sscanf(string(maps), "%x-", &at)
		return at, err
	}
	mine, err := first("self")
	if err != nil {
		return 0, err
	}
	other, err := first(fmt.Sprint(pid))
	return other - mine, err
}
