// Package shm allocates memory that other processes of this host can map, and maps theirs: within a host a large payload is then sent as a
// reference and copied once, by its receiver.
//
//	x := shm.Float32s(n)                     // as make([]float32, n), garbage collected as that is
//	block, offset, ok := shm.Find(bytesOf(x)) // in the sender: which block of memory, and where in it
//	// the block's File goes to the other process as a descriptor, the offset in a message
//	m, err := shm.Map(fd)                    // in the receiver
//	copy(dst, m.Bytes()[offset:])
//
// # Memory of the Go heap
//
// Memory is taken from the Go heap as any other, and then the pages it lies in are replaced by those of a file without a name
// (memfd_create): the collector and every slice see ordinary memory, which lives as long as anything points to it. A
// finalizer puts ordinary pages back before the heap uses them again, and closes the file. So there is nothing to
// release, nothing that could be used after it, and nothing that a killed process leaves behind.
//
// The file's size is sealed: its owner cannot take pages away under a reader. It is open to those alone to whom the owner
// sends the descriptor.
//
// Where the system has no such files, and for less than MinBytes, the memory is ordinary and Find does not know it.
package shm

import "unsafe"

// MinBytes is the least that is worth a block of its own: below it a copy costs less than the note.
const MinBytes = 64 << 10

// Float32s returns n zeros.
func Float32s(n int) []float32 {
	words := Words((n + 1) / 2)
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), 2*len(words))[:n:n]
}

// Words returns n zeros of 8 bytes each, aligned to 8 bytes or better.
func Words(n int) []uint64 {
	if words := Shared(n); words != nil {
		return words
	}
	return make([]uint64, n)
}

// Shared is Words, but nil where the memory would be ordinary.
func Shared(n int) []uint64 {
	if n < MinBytes/8 {
		return nil
	}
	return words(n)
}
