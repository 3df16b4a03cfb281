package drv

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// A Module is loaded machine code, a Function a kernel in it.
type (
	Module   uintptr
	Function uintptr
)

// logBytes is the room for what the driver's compiler says.
const logBytes = 16 << 10

// LoadModule loads PTX, which the driver compiles, or a cubin. What its compiler says is in the
// error's Log.
func (t *Thread) LoadModule(image []byte) (Module, error) {
	if len(image) == 0 {
		return 0, fmt.Errorf("drv: load module on cuda:%d: no bytes", t.ordinal)
	}
	text := append(bytes.Clone(image), 0)
	jit := &struct {
		options [4]int32
		values  [4]uintptr
		logs    [2][logBytes]byte
	}{options: [4]int32{jitErrorLogBuffer, jitErrorLogBufferSize, jitInfoLogBuffer, jitInfoLogBufferSize}}
	jit.values = [4]uintptr{uintptr(unsafe.Pointer(&jit.logs[0])), logBytes, uintptr(unsafe.Pointer(&jit.logs[1])), logBytes}

	// The addresses in it point into itself.
	t.hold = unsafe.Pointer(jit)
	code := int32(t.caller.Call(t.driver.f.cuModuleLoadDataEx, t.number(), uintptr(unsafe.Pointer(&text[0])), uintptr(len(jit.options)),
		uintptr(unsafe.Pointer(&jit.options)), uintptr(unsafe.Pointer(&jit.values))))
	t.hold = nil
	if code != success {
		err := t.fail(code, "cuModuleLoadDataEx of %d bytes", len(image))
		if e, ok := errors.AsType[*Error](err); ok {
			e.Log = logText(jit.logs[0][:])
		}
		return 0, err
	}
	return Module(t.num[0]), nil
}

// logText is a log up to its ending zero.
func logText(log []byte) string {
	if i := bytes.IndexByte(log, 0); i >= 0 {
		log = log[:i]
	}
	return strings.TrimSpace(string(log))
}

// UnloadModule gives a module back. Nothing of it may be running or be in a graph that is used
// again.
func (t *Thread) UnloadModule(m Module) error {
	if code := t.call(t.driver.f.cuModuleUnload, uintptr(m)); code != success {
		return t.fail(code, "cuModuleUnload")
	}
	return nil
}

// Function finds a kernel by the name it has in the module.
func (t *Thread) Function(m Module, name string) (Function, error) {
	text := append([]byte(name), 0)
	if code := int32(t.caller.Call(t.driver.f.cuModuleGetFunction, t.number(), uintptr(m), uintptr(unsafe.Pointer(&text[0])))); code != success {
		return 0, t.fail(code, "cuModuleGetFunction of %q", name)
	}
	return Function(t.num[0]), nil
}

// FunctionAttribute returns what a kernel has or may use.
func (t *Thread) FunctionAttribute(f Function, a FuncAttribute) (int, error) {
	if code := t.call(t.driver.f.cuFuncGetAttribute, t.number(), uintptr(a), uintptr(f)); code != success {
		return 0, t.fail(code, "cuFuncGetAttribute %d", a)
	}
	return int(int32(t.num[0])), nil
}

// SetFunctionAttribute sets what a kernel may use. A kernel that is launched with more than 48 KiB
// of shared memory needs MaxDynamicShared for it.
func (t *Thread) SetFunctionAttribute(f Function, a FuncAttribute, value int) error {
	if code := t.call(t.driver.f.cuFuncSetAttribute, uintptr(f), uintptr(a), uintptr(uint32(int32(value)))); code != success {
		return t.fail(code, "cuFuncSetAttribute %d to %d", a, value)
	}
	return nil
}

// Occupancy returns how many blocks of a kernel a multiprocessor runs at once.
func (t *Thread) Occupancy(f Function, threads int, sharedBytes int64) (int, error) {
	code := t.call(t.driver.f.cuOccupancyMaxActiveBlocksPerMultiprocessor, t.number(), uintptr(f), uintptr(threads), uintptr(sharedBytes))
	if code != success {
		return 0, t.fail(code, "cuOccupancyMaxActiveBlocksPerMultiprocessor of %d threads and %d bytes", threads, sharedBytes)
	}
	return int(int32(t.num[0])), nil
}
