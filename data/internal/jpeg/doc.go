// Package jpeg decodes JPEG images to the planes of their components, bit for bit as libjpeg and
// libjpeg-turbo do with their accurate integer DCT (islow), on every processor and with every
// release of Go.
//
// It reads sequential and progressive images by Huffman codes with 8 bits a sample, of one, three
// or four components, with restarts and in any number of scans. The samples of a component may be
// 1, 2, 3 or 4 pixels apart. Arithmetic codes, 12 bits, lossless and hierarchical images are
// refused by name. An image that is cut short or whose codes make no sense is an error with the
// byte where.
//
// A Decoder can be asked for a part of an image: it reads codes up to the last row that is needed,
// and transforms the blocks of the part alone. What it gives of the part is what it gives of the
// whole.
//
//	var d jpeg.Decoder
//	h, err := d.ReadHeader(encoded)
//	err = d.Decode(jpeg.Part{0, 0, h.Width, h.Height})
//	d.Planes[0].Pix // luminance
//
// A Decoder keeps its memory for the next image. It belongs to one goroutine.
package jpeg

import (
	"errors"
	"fmt"
	"io"
)

// A Color says what the components are.
type Color uint8

const (
	Grey  Color = iota // one plane
	YCbCr              // luminance and two of chroma

	// RGB is taken as it is.
	RGB

	CMYK // inverted, as Adobe's programs store it

	// YCCK is inverted CMY as luminance and chroma, and inverted black.
	YCCK
)

// A Header is what an image says of itself before its first scan.
type Header struct {
	Width, Height int
	Color         Color
	Progressive   bool
}

// A Part is the pixels of an image from (Left, Top), Width wide and Height high.
type Part struct{ Left, Top, Width, Height int }

// A Plane has the samples of one component. Those outside of the part that was decoded have any
// value.
type Plane struct {
	Pix    []uint8
	Stride int
	// Width and Height are how many samples the image has; rows have more, up to whole blocks.
	Width, Height int
	// Across and Down are how many pixels a sample serves.
	Across, Down int
}

// ErrUnsupported says that an image is of a kind that this package does not read.
var ErrUnsupported = errors.New("not supported")

// A Decoder decodes images one after the other.
type Decoder struct {
	Header
	// Planes are those of the components, valid until the next image.
	Planes []Plane

	in bits

	components []component

	// across and down are the samples of an MCU in pixels / 8: the largest h and v.
	across, down int

	mcusWide, mcusHigh int

	// quant is in the order of the codes.
	quant [4][64]uint16

	haveQuant [4]bool
	tables    [2][4]table // DC and AC

	// restart is the MCUs between restarts; 0: there are none.
	restart int

	// adobe is that marker's transform; −1: the image has no such marker.
	adobe int

	jfif                  bool
	haveFrame, scanned    bool
	part                  Part
	block                 [64]int16
	eobRun                int
	spectralEnd           int
	spectralStart         int
	approxHigh, approxLow uint
}

// A component is one of the image: its plane is d.Planes[i].
type component struct {
	id, h, v, quant int
	// wide and high are its blocks in a scan of its own; stride is its blocks in a row of MCUs.
	wide, high, stride int
	dc, ac             int // its tables in this scan
	last               int16

	// coefficients are those of all blocks, for progressive images.
	coefficients []int16

	// scanned is true once a scan had its means.
	scanned bool
	// The blocks that are needed: from left to right and top to bottom, inclusive.
	left, right, top, bottom int
}

// damaged is an error of the codes at the byte under way.
func (d *Decoder) damaged(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", d.in.p, fmt.Sprintf(format, args...))
}

func unsupported(what string) error { return fmt.Errorf("%w: %s", ErrUnsupported, what) }

var errCut = io.ErrUnexpectedEOF
