package decode

import (
	"fmt"
	"io"

	"github.com/paragon-train/paragon/data/transform"
)

// A pnmHeader is the head of a binary PGM (P5) or PPM (P6) image.
type pnmHeader struct {
	channels, width, height, largest int
	size                             int // bytes of the header
}

func isPNM(b []byte) bool {
	return len(b) >= 3 && b[0] == 'P' && (b[1] == '5' || b[1] == '6') && isSpace(b[2])
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// readPNMHeader reads width, height and the largest sample, between which there is white space and
// comments.
func readPNMHeader(b []byte) (pnmHeader, error) {
	h := pnmHeader{channels: 1, size: 2}
	if b[1] == '6' {
		h.channels = 3
	}
	for _, field := range []struct {
		name    string
		to      *int
		largest int
	}{{"width", &h.width, 1 << 24}, {"height", &h.height, 1 << 24}, {"largest sample", &h.largest, 65535}} {
		for h.size < len(b) && (isSpace(b[h.size]) || b[h.size] == '#') {
			if b[h.size] == '#' {
				for h.size < len(b) && b[h.size] != '\n' {
					h.size++
				}
				continue
			}
			h.size++
		}
		n, digits := 0, 0
		for ; h.size < len(b) && '0' <= b[h.size] && b[h.size] <= '9'; h.size++ {
			n, digits = n*10+int(b[h.size]-'0'), digits+1
			if n > field.largest {
				return h, fmt.Errorf("%s: got more than %d", field.name, field.largest)
			}
		}
		if h.size == len(b) {
			return h, io.ErrUnexpectedEOF
		}
		if digits == 0 || n == 0 {
			return h, fmt.Errorf("%s at byte %d: got no number from 1", field.name, h.size)
		}
		*field.to = n
	}
	if !isSpace(b[h.size]) {
		return h, fmt.Errorf("byte %d: got %q, want white space after the header", h.size, b[h.size])
	}
	h.size++
	return h, nil
}

// decodePNM scales samples to 8 bits.
func decodePNM(dst *transform.Image, encoded []byte, channels int) error {
	h, err := readPNMHeader(encoded)
	if err != nil {
		return err
	}
	each := 1
	if h.largest > 255 {
		each = 2
	}
	samples := h.width * h.height * h.channels
	in := encoded[h.size:]
	if len(in) < samples*each {
		return io.ErrUnexpectedEOF
	}
	var bad int
	sample := func(i int) uint32 {
		v := int(in[i*each])
		if each == 2 {
			v = v<<8 | int(in[i*2+1])
		}
		if v > h.largest {
			bad = i + 1
		}
		if h.largest == 255 {
			return uint32(v)
		}
		return uint32((v*255 + h.largest/2) / h.largest)
	}
	room(dst, h.width, h.height, channels)
	for i := range h.width * h.height {
		switch {
		case h.channels == 3 && channels == 3:
			for c := range 3 {
				dst.Pix[i*3+c] = uint8(sample(i*3 + c))
			}
		case h.channels == 3:
			dst.Pix[i] = uint8((sample(i*3)*19595 + sample(i*3+1)*38470 + sample(i*3+2)*7471 + 1<<15) >> 16)
		case channels == 3:
			v := uint8(sample(i))
			dst.Pix[i*3], dst.Pix[i*3+1], dst.Pix[i*3+2] = v, v, v
		default:
			dst.Pix[i] = uint8(sample(i))
		}
	}
	if bad > 0 {
		return fmt.Errorf("sample %d is above the largest one, %d", bad-1, h.largest)
	}
	return nil
}
