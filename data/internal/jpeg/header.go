package jpeg

import (
	"bytes"
	"fmt"
)

const (
	markerSOI  = 0xd8
	markerEOI  = 0xd9
	markerSOS  = 0xda
	markerDQT  = 0xdb
	markerDNL  = 0xdc
	markerDRI  = 0xdd
	markerDHT  = 0xc4
	markerDAC  = 0xcc
	markerAPP0 = 0xe0
	markerAPPE = 0xee
	markerRST0 = 0xd0
)

// ReadHeader reads an image up to the frame's head. It keeps encoded until Decode has returned.
func (d *Decoder) ReadHeader(encoded []byte) (Header, error) {
	d.Header, d.Planes = Header{}, d.Planes[:0]
	d.in = bits{data: encoded}
	d.haveQuant, d.restart, d.adobe, d.jfif, d.haveFrame, d.scanned = [4]bool{}, 0, -1, false, false, false
	for i := range d.tables {
		for j := range d.tables[i] {
			d.tables[i][j].there = false
		}
	}
	if !bytes.HasPrefix(encoded, []byte{0xff, markerSOI}) {
		if len(encoded) < 2 {
			return Header{}, errCut
		}
		return Header{}, fmt.Errorf("got % x at the beginning, want ff d8", encoded[:2])
	}
	d.in.p = 2
	for {
		marker, segment, err := d.nextSegment()
		if err != nil {
			return Header{}, err
		}
		switch {
		case marker == markerEOI || marker == markerSOS:
			return Header{}, d.damaged("the image has no frame (SOF) before marker %02x", marker)
		default:
			if err := d.segment(marker, segment); err != nil {
				return Header{}, err
			}
		}
		if d.haveFrame {
			// JFIF's and Adobe's segments mostly stand before the frame, but need not:
			// Decode looks again.
			d.Header.Color = d.color()
			return d.Header, nil
		}
	}
}

// nextSegment returns the next marker and what belongs to it. Bytes that are none of a marker are
// left out, as in libjpeg.
func (d *Decoder) nextSegment() (marker byte, segment []byte, err error) {
	data := d.in.data
	for {
		i := bytes.IndexByte(data[d.in.p:], 0xff)
		if i < 0 || d.in.p+i+1 >= len(data) {
			return 0, nil, errCut
		}
		d.in.p += i + 1
		marker = data[d.in.p]
		if marker != 0 && marker != 0xff {
			d.in.p++
			break
		}
	}
	if marker == markerEOI || marker == markerSOI || marker == 0x01 || markerRST0 <= marker && marker < markerRST0+8 {
		return marker, nil, nil
	}
	if d.in.p+2 > len(data) {
		return 0, nil, errCut
	}
	n := int(data[d.in.p])<<8 | int(data[d.in.p+1])
	if n < 2 {
		return 0, nil, d.damaged("got a segment of %d bytes, want at least 2", n)
	}
	if d.in.p+n > len(data) {
		return 0, nil, errCut
	}
	segment = data[d.in.p+2 : d.in.p+n]
	d.in.p += n
	return marker, segment, nil
}

// segment takes what is not a scan.
func (d *Decoder) segment(marker byte, b []byte) error {
	switch {
	case marker == markerDQT:
		return d.readQuant(b)
	case marker == markerDHT:
		return d.readHuffman(b)
	case marker == markerDRI:
		if len(b) != 2 {
			return d.damaged("got a restart interval of %d bytes, want 2", len(b))
		}
		d.restart = int(b[0])<<8 | int(b[1])
	case marker == markerAPP0:
		d.jfif = d.jfif || bytes.HasPrefix(b, []byte("JFIF\x00"))
	case marker == markerAPPE:
		if len(b) >= 12 && bytes.HasPrefix(b, []byte("Adobe")) {
			d.adobe = int(b[11])
		}
	case marker == 0xc0 || marker == 0xc1 || marker == 0xc2:
		return d.readFrame(b, marker == 0xc2)
	case marker == 0xc9 || marker == 0xca || marker == 0xcb || marker == markerDAC:
		return unsupported("arithmetic codes")
	case marker == 0xc3:
		return unsupported("a lossless image")
	case 0xc5 <= marker && marker <= 0xcf:
		return unsupported("a hierarchical image")
	case marker == markerDNL:
		return unsupported("a number of lines after the scan")
	}
	return nil
}

func (d *Decoder) readQuant(b []byte) error {
	for len(b) > 0 {
		each, which := 1+int(b[0]>>4), b[0]&15
		if each > 2 || which > 3 {
			return d.damaged("got quantization table %#x, want 0 to 3 of 8 or 16 bits", b[0])
		}
		if b = b[1:]; len(b) < 64*each {
			return d.damaged("got %d bytes of a quantization table, want %d", len(b), 64*each)
		}
		for i := range 64 {
			if each == 1 {
				d.quant[which][i] = uint16(b[i])
			} else {
				d.quant[which][i] = uint16(b[2*i])<<8 | uint16(b[2*i+1])
			}
		}
		d.haveQuant[which] = true
		b = b[64*each:]
	}
	return nil
}

func (d *Decoder) readHuffman(b []byte) error {
	for len(b) > 0 {
		if len(b) < 17 {
			return d.damaged("got %d bytes of a Huffman table, want at least 17", len(b))
		}
		class, which := b[0]>>4, b[0]&15
		if class > 1 || which > 3 {
			return d.damaged("got Huffman table %#x, want 0 to 3 of DC or AC", b[0])
		}
		counts, n := b[1:17], 0
		for _, c := range counts {
			n += int(c)
		}
		if b = b[17:]; n > 256 || len(b) < n {
			return d.damaged("got %d symbols of a Huffman table, want %d, at most 256", len(b), n)
		}
		if !d.tables[class][which].build(counts, b[:n]) {
			return d.damaged("the lengths % x are those of no Huffman codes", counts)
		}
		b = b[n:]
	}
	return nil
}

func (d *Decoder) readFrame(b []byte, progressive bool) error {
	if d.haveFrame {
		return d.damaged("the image has two frames (SOF)")
	}
	if len(b) < 6 || len(b) != 6+3*int(b[5]) {
		return d.damaged("got a frame (SOF) of %d bytes, which does not fit its components", len(b))
	}
	if b[0] != 8 {
		return unsupported(fmt.Sprintf("%d bits a sample", b[0]))
	}
	d.Height, d.Width = int(b[1])<<8|int(b[2]), int(b[3])<<8|int(b[4])
	if d.Height == 0 {
		return unsupported("a number of lines after the scan")
	}
	if d.Width == 0 {
		return d.damaged("got a width of 0 pixels")
	}
	d.Progressive = progressive
	n := int(b[5])
	if n != 1 && n != 3 && n != 4 {
		return unsupported(fmt.Sprintf("%d components", n))
	}
	if cap(d.components) < n {
		d.components = make([]component, 4)
	}
	d.components = d.components[:n]
	d.across, d.down = 1, 1
	for i := range d.components {
		s := b[6+3*i:]
		c := &d.components[i]
		c.id, c.h, c.v, c.quant = int(s[0]), int(s[1]>>4), int(s[1]&15), int(s[2])
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.quant > 3 {
			return d.damaged("component %d: got %d×%d samples and quantization table %d, want 1 to 4 and 0 to 3", i, c.h, c.v, c.quant)
		}
		for _, other := range d.components[:i] {
			if other.id == c.id {
				return d.damaged("two components have the name %d", c.id)
			}
		}
		d.across, d.down = max(d.across, c.h), max(d.down, c.v)
	}
	for i, c := range d.components {
		if d.across%c.h != 0 || d.down%c.v != 0 {
			return unsupported(fmt.Sprintf("component %d with %d×%d of %d×%d samples", i, c.h, c.v, d.across, d.down))
		}
	}
	d.haveFrame = true
	return nil
}

// color is libjpeg's guess.
func (d *Decoder) color() Color {
	switch len(d.components) {
	case 1:
		return Grey
	case 4:
		if d.adobe > 0 {
			return YCCK
		}
		return CMYK
	}
	switch id := d.components; {
	case d.jfif:
		return YCbCr
	case d.adobe == 0:
		return RGB
	case d.adobe < 0 && id[0].id == 'R' && id[1].id == 'G' && id[2].id == 'B':
		return RGB
	}
	return YCbCr
}
