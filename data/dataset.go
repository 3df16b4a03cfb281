package data

import "fmt"

// A Shape is that of one image. Pixels lie channel by channel, each row-major:
// (C, H, W).
type Shape struct {
	Channels, Height, Width int
}

// Size returns the number of values in an image.
func (s Shape) Size() int { return s.Channels * s.Height * s.Width }

// String returns the shape as "3×32×32".
func (s Shape) String() string { return fmt.Sprintf("%d×%d×%d", s.Channels, s.Height, s.Width) }

// A Dataset is what a Loader reads from.
//
// Read writes the pixels of example i, in [0, Len), to dst, which has
// Shape().Size() bytes, and returns its label. It may be called from several
// goroutines at once.
type Dataset interface {
	Len() int
	Shape() Shape
	Read(i int, dst []uint8) (label int, err error)
}

// An ImageSet is a data set in memory: one byte for each value, one for each
// label. It never changes.
type ImageSet struct {
	shape   Shape
	classes []string
	pixels  []uint8
	labels  []uint8
}

// NewImageSet returns the set of the given pixels and labels, which it keeps.
func NewImageSet(shape Shape, classes []string, pixels, labels []uint8) (*ImageSet, error) {
	if shape.Channels < 1 || shape.Height < 1 || shape.Width < 1 {
		return nil, fmt.Errorf("data: image set: got shape %v, want at least 1×1×1", shape)
	}
	if len(pixels) != len(labels)*shape.Size() {
		return nil, fmt.Errorf("data: image set: got %d bytes of pixels for %d images of %v, want %d",
			len(pixels), len(labels), shape, len(labels)*shape.Size())
	}
	for i, l := range labels {
		if int(l) >= len(classes) {
			return nil, fmt.Errorf("data: image set: image %d: got label %d, want below %d", i, l, len(classes))
		}
	}
	return &ImageSet{shape: shape, classes: classes, pixels: pixels, labels: labels}, nil
}

// Len returns the number of images.
func (s *ImageSet) Len() int { return len(s.labels) }

// Shape returns the shape of each image.
func (s *ImageSet) Shape() Shape { return s.shape }

// Classes returns the names of the classes, by label.
func (s *ImageSet) Classes() []string { return append([]string(nil), s.classes...) }

// Label returns the label of image i.
func (s *ImageSet) Label(i int) int { return int(s.labels[i]) }

// Pixels returns the pixels of image i. They must not be changed.
func (s *ImageSet) Pixels(i int) []uint8 {
	n := s.shape.Size()
	return s.pixels[i*n : (i+1)*n : (i+1)*n]
}

// Read implements Dataset.
func (s *ImageSet) Read(i int, dst []uint8) (int, error) {
	if i < 0 || i >= len(s.labels) {
		return 0, fmt.Errorf("data: image set: got image %d, want 0 to %d", i, len(s.labels)-1)
	}
	if copy(dst, s.Pixels(i)) != s.shape.Size() {
		return 0, fmt.Errorf("data: image set: got a buffer of %d bytes, want %d", len(dst), s.shape.Size())
	}
	return int(s.labels[i]), nil
}

// Head returns the first n images as a set, or all if there are fewer. It
// shares memory with s.
func (s *ImageSet) Head(n int) *ImageSet {
	n = max(0, min(n, s.Len()))
	return &ImageSet{s.shape, s.classes, s.pixels[:n*s.shape.Size()], s.labels[:n]}
}
