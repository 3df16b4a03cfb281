package nvrtc

import "unsafe"

// texts is memory that C reads: it lies in the heap, and stays as long as the texts are used.
type texts struct {
	bytes [][]byte
	words [][]uintptr
}

// text returns the address of a text, with a zero behind it.
func (t *texts) text(s string) uintptr {
	b := append([]byte(s), 0)
	t.bytes = append(t.bytes, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// array returns n zeros.
func (t *texts) array(n int) []uintptr {
	w := make([]uintptr, n)
	t.words = append(t.words, w)
	return w
}

// list returns the address of an array of addresses of texts, 0 for none.
func (t *texts) list(list []string) uintptr {
	if len(list) == 0 {
		return 0
	}
	w := t.array(len(list))
	for i, s := range list {
		w[i] = t.text(s)
	}
	return address(w)
}

func address(w []uintptr) uintptr { return uintptr(unsafe.Pointer(&w[0])) }
