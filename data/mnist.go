package data

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// The mean and the standard deviation of MNIST's training images, for pixels
// in [0, 1].
var (
	MNISTMean = []float32{0.1307}
	MNISTStd  = []float32{0.3081}
)

var digits = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// Limits of an idx file: more than any set of this kind has.
const (
	maxIdxImages = 10_000_000
	maxIdxSide   = 1024
	maxIdxBytes  = 1 << 31
)

// LoadMNIST reads the four idx files of MNIST from a folder: 60,000 training
// and 10,000 test images of 1×28×28 (LeCun, Cortes, Burges). They may be
// compressed (train-images-idx3-ubyte.gz) or not. Sets in the same form, such
// as Fashion-MNIST, load too: their sizes need not be MNIST's.
func LoadMNIST(dir string) (train, test *ImageSet, err error) {
	if train, err = loadIdxPair(dir, "train"); err != nil {
		return nil, nil, err
	}
	if test, err = loadIdxPair(dir, "t10k"); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

func loadIdxPair(dir, prefix string) (*ImageSet, error) {
	images, err := openIdx(dir, prefix+"-images-idx3-ubyte")
	if err != nil {
		return nil, err
	}
	defer images.Close()
	shape, pixels, err := readIdxImages(images)
	if err != nil {
		return nil, err
	}
	labels, err := openIdx(dir, prefix+"-labels-idx1-ubyte")
	if err != nil {
		return nil, err
	}
	defer labels.Close()
	list, err := readIdxLabels(labels, len(digits))
	if err != nil {
		return nil, err
	}
	if len(pixels) != len(list)*shape.Size() {
		return nil, fmt.Errorf("data: %s has %d images, %s %d labels; they do not belong together: fetch them again",
			images.name, len(pixels)/shape.Size(), labels.name, len(list))
	}
	return NewImageSet(shape, digits, pixels, list)
}

func openIdx(dir, name string) (*source, error) {
	for _, suffix := range []string{".gz", ""} {
		file := filepath.Join(dir, name+suffix)
		if _, err := os.Stat(file); err == nil {
			return openSource(file)
		}
	}
	return nil, fmt.Errorf("data: mnist: %s has neither %s.gz nor %s; fetch the four files of MNIST into it", dir, name, name)
}

// readIdxImages reads an idx file of three dimensions: big-endian magic
// 0x00000803, number of images, rows, columns; then the pixels.
func readIdxImages(s *source) (Shape, []byte, error) {
	var h [16]byte
	if err := s.full(h[:], "header"); err != nil {
		return Shape{}, nil, err
	}
	if magic := binary.BigEndian.Uint32(h[:]); magic != 0x803 {
		return Shape{}, nil, fmt.Errorf("data: %s: byte 0: got magic %#08x, want 0x00000803; it is not a file of idx images", s.name, magic)
	}
	n, rows, columns := binary.BigEndian.Uint32(h[4:]), binary.BigEndian.Uint32(h[8:]), binary.BigEndian.Uint32(h[12:])

	// The product is at most 2⁹⁶ in theory, so the factors are checked first.
	size := uint64(n) * uint64(rows) * uint64(columns)
	if n > maxIdxImages || rows < 1 || rows > maxIdxSide || columns < 1 || columns > maxIdxSide || size >= maxIdxBytes {
		return Shape{}, nil, fmt.Errorf("data: %s: byte 4: got %d images of %d×%d, want at most %d of 1×1 to %d×%d; the file is damaged: fetch it again",
			s.name, n, rows, columns, maxIdxImages, maxIdxSide, maxIdxSide)
	}
	pixels, err := s.bytes(int(size), "pixels")
	if err != nil {
		return Shape{}, nil, err
	}
	return Shape{1, int(rows), int(columns)}, pixels, s.end()
}

// readIdxLabels reads an idx file of one dimension: big-endian magic
// 0x00000801, number of labels; then the labels.
func readIdxLabels(s *source, classes int) ([]byte, error) {
	var h [8]byte
	if err := s.full(h[:], "header"); err != nil {
		return nil, err
	}
	if magic := binary.BigEndian.Uint32(h[:]); magic != 0x801 {
		return nil, fmt.Errorf("data: %s: byte 0: got magic %#08x, want 0x00000801; it is not a file of idx labels", s.name, magic)
	}
	n := binary.BigEndian.Uint32(h[4:])
	if n > maxIdxImages {
		return nil, fmt.Errorf("data: %s: byte 4: got %d labels, want at most %d; the file is damaged: fetch it again", s.name, n, maxIdxImages)
	}
	labels, err := s.bytes(int(n), "labels")
	if err != nil {
		return nil, err
	}
	for i, l := range labels {
		if int(l) >= classes {
			return nil, fmt.Errorf("data: %s: byte %d: got label %d, want 0 to %d; the file is damaged: fetch it again", s.name, 8+i, l, classes-1)
		}
	}
	return labels, s.end()
}

// bytes reads n bytes. It takes memory as the bytes come, so that a wrong
// length in a short file costs nothing.
func (s *source) bytes(n int, what string) ([]byte, error) {
	const piece = 1 << 20
	out := make([]byte, 0, min(n, piece))
	for len(out) < n {
		k := min(n-len(out), piece)
		out = append(out, make([]byte, k)...)
		if err := s.full(out[len(out)-k:], what); err != nil {
			return nil, err
		}
	}
	return out, nil
}
