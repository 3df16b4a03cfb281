package decode

import (
	"bytes"
	"encoding/binary"

	"github.com/paragon-train/paragon/data/transform"
)

// orientation returns the EXIF orientation of a JPEG, 1 to 8; 1, as it is stored, where there is
// none that can be read.
func orientation(encoded []byte) int {
	b := encoded[2:]
	for len(b) >= 4 && b[0] == 0xff {
		marker, size := b[1], int(b[2])<<8|int(b[3])
		if marker == 0xff { // fill
			b = b[1:]
			continue
		}
		if marker == 0xda || size < 2 || len(b) < 2+size {
			break
		}
		if segment := b[4 : 2+size]; marker == 0xe1 && bytes.HasPrefix(segment, []byte("Exif\x00\x00")) {
			return tiffOrientation(segment[6:])
		}
		b = b[2+size:]
	}
	return 1
}

// tiffOrientation looks for tag 0x0112 in the first directory.
func tiffOrientation(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'M' {
		order = binary.BigEndian
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 1
	}
	n := int(order.Uint16(b[at:]))
	b = b[at+2:]
	for ; n > 0 && len(b) >= 12; n, b = n-1, b[12:] {
		if order.Uint16(b) == 0x0112 && order.Uint16(b[2:]) == 3 {
			if o := int(order.Uint16(b[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
	}
	return 1
}

// orient turns an image that is stored with an orientation: 2 mirrored, 3 upside down, 4 both, 5 to
// 8 with rows for columns.
func orient(img *transform.Image, o int) {
	if o <= 1 {
		return
	}
	w, h, c := img.Width, img.Height, img.Channels
	old := bytes.Clone(img.Pix)
	width, height := w, h
	if o >= 5 {
		width, height = h, w
	}
	img.Width, img.Height = width, height
	for y := range height {
		for x := range width {
			sx, sy := x, y
			if o >= 5 {
				sx, sy = y, x
			}
			// Which sides of the stored image are turned around, for each orientation.
			if o == 2 || o == 3 || o == 7 || o == 8 {
				sx = w - 1 - sx
			}
			if o == 3 || o == 4 || o == 6 || o == 7 {
				sy = h - 1 - sy
			}
			copy(img.Pix[(y*width+x)*c:][:c], old[(sy*w+sx)*c:])
		}
	}
}
