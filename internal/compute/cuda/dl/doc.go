// Package dl finds NVIDIA's libraries, opens them and calls their functions, with no C compiler in
// the build.
//
// A Search knows the places where drivers, CUDA installations and Python packages put the
// libraries, and opens one by its absolute path, the ones it depends on first; Symbol gives a
// function's address and a Caller calls it. Report lists what was found, with paths and versions:
// the first lines of every log.
//
//	var search dl.Search                       // the usual places
//	lib, err := search.Open(dl.CUDA)
//	fn, err := lib.Symbol("cuInit")
//	var caller dl.Caller
//	code := int32(caller.Call(fn, 0))
//
// # What may cross
//
// C sees addresses only. Memory handed to C must not move and must outlive the call: memory of the
// Go heap for calls that return when they are done with it, pinned memory (drv's HostAlloc and
// HostRegister) for copies that go on after the call. Never a variable on a stack, unless Call
// itself is given uintptr(unsafe.Pointer(&x)) in its arguments: that moves x to the heap and keeps
// it alive until Call returns.
//
// # Builds without CUDA
//
// There are calls on linux/amd64 and linux/arm64. Other builds, and those with the tag nocuda,
// compile, and Open answers ErrBuild.
package dl

import "errors"

var (
	// ErrBuild says that this program was built without CUDA.
	ErrBuild = errors.New("this build has no CUDA")
	// ErrNoLibrary says that a library is nowhere on this machine. The error around it lists
	// where it was looked for.
	ErrNoLibrary = errors.New("no such library")
	// ErrTooOld says that a library lacks a function that is needed, or that its version is
	// below the least one.
	ErrTooOld = errors.New("library is too old")
	// ErrTooNew says that a library is built for a later CUDA than the driver runs.
	ErrTooNew = errors.New("library is too new")
)
