// Package shm allocates memory that other processes of this host can map, and maps theirs: within a
// host a large payload is then sent as a reference and copied once, by its receiver.
//
//	x := shm.Float32s(n)                     // as make([]float32, n), garbage collected as that is
//	block, offset, ok := shm.Find(bytesOf(x)) // in the sender: which block of memory, and where in it
//	// the block's File goes to the other process as a descriptor, the offset in a message
//	m, err := shm.Map(fd, false)             // in the receiver
//	copy(dst, m.Bytes()[offset:])
//
// # Memory of the Go heap
//
// Memory is taken from the Go heap as any other, and then the pages it lies in are replaced by
// those of a file without a name (memfd_create): the collector and every slice see ordinary memory,
// which lives as long as anything points to it. A finalizer puts ordinary pages back before the
// heap uses them again, and closes the file. So there is nothing to release, nothing that could be
// used after it, and nothing that a killed process leaves behind.
//
// The file's size is sealed: its owner cannot take pages away under a reader. It is open to those
// alone to whom the owner sends the descriptor.
//
// Where the system has no such files, and for less than MinBytes, the memory is ordinary and Find
// does not know it.
package shm

import "unsafe"

// MinBytes is the least that is worth a block of its own: below it a copy costs less than the note.
const MinBytes = 64 << 10

// Float32s returns n zeros.
func Float32s(n int) []float32 {
	_, all := Slices(n)
	return all
}

// Slices returns slices of zeros of these lengths, in one piece of memory, which is returned, too.
// Each begins on a cache line of its own. Those of MinBytes and more have their pages to
// themselves, so that they can be lent while neighbours are written to, and be detached.
func Slices(lengths ...int) (each [][]float32, all []float32) {
	line, page := 64/4, int(pageSize)/4
	up := func(n, to int) int { return (n + to - 1) / to * to }
	each = make([][]float32, len(lengths))
	begins, total, end, ends := make([]int, len(lengths)), 0, 0, []int(nil)
	for i, n := range lengths {
		large := 4*n >= MinBytes
		if large {
			total = up(total, page)
		}
		begins[i], end = total, total+n
		total = up(end, line)
		if large {
			ends = append(ends, 4*end)
			total = up(end, page)
		}
	}
	var memory []uint64
	if 4*end >= MinBytes {
		memory = words((end+1)/2, ends)
	}
	if memory == nil {
		memory = make([]uint64, (end+1)/2)
	}
	all = unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(memory))), 2*len(memory))[:end:end]
	for i, n := range lengths {
		each[i] = all[begins[i] : begins[i]+n : begins[i]+n]
	}
	return each, all
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
	return words(n, nil)
}
