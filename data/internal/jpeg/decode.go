package jpeg

import (
	"bytes"
	"errors"

	"github.com/paragon-train/paragon/data/internal/pixel"
)

// Decode reads the scans of the image whose header was read, and fills Planes with the samples that
// a part of it needs.
func (d *Decoder) Decode(part Part) error {
	if !d.haveFrame || d.scanned {
		panic("jpeg: Decode needs a header that was read")
	}
	if part.Left < 0 || part.Top < 0 || part.Width < 1 || part.Height < 1 || part.Left+part.Width > d.Width || part.Top+part.Height > d.Height {
		panic("jpeg: Decode: the part is not in the image")
	}
	d.scanned, d.part, d.block = true, part, [64]int16{}
	if err := d.layOut(); err != nil {
		return err
	}
	scans := 0
	for {
		marker, segment, err := d.nextSegment()
		if errors.Is(err, errCut) && scans > 0 && !d.Progressive {
			// All codes were there; only the end (EOI) is missing. libjpeg takes this,
			// too.
			break
		}
		if err != nil {
			return err
		}
		if marker == markerEOI {
			break
		}
		if marker != markerSOS {
			if err := d.segment(marker, segment); err != nil {
				return err
			}
			continue
		}
		done, err := d.scan(segment)
		if err != nil {
			return err
		}
		scans++
		if done {
			break
		}
	}
	for i, c := range d.components {
		if !c.scanned {
			return d.damaged("component %d has no scan", i)
		}
		if !d.haveQuant[c.quant] {
			return d.damaged("component %d: quantization table %d is not there", i, c.quant)
		}
	}
	d.Header.Color = d.color()
	if d.Progressive {
		d.transformAll()
	}
	return nil
}

func ceil(a, b int) int { return (a + b - 1) / b }

// layOut makes room for planes, and says which blocks are needed. No memory is taken for an image
// that has not a bit for each block.
func (d *Decoder) layOut() error {
	d.mcusWide, d.mcusHigh = ceil(d.Width, 8*d.across), ceil(d.Height, 8*d.down)
	if ceil(d.Width, 8)*ceil(d.Height, 8)/(d.across*d.down) > 8*len(d.in.data) {
		return errCut
	}
	if cap(d.Planes) < 4 {
		d.Planes = make([]Plane, 4)
	}
	d.Planes = d.Planes[:len(d.components)]
	for i := range d.components {
		c, p := &d.components[i], &d.Planes[i]
		p.Across, p.Down = d.across/c.h, d.down/c.v
		p.Width, p.Height = ceil(d.Width, p.Across), ceil(d.Height, p.Down)
		c.wide, c.high = ceil(p.Width, 8), ceil(p.Height, 8)
		c.stride = d.mcusWide * c.h
		p.Stride = c.stride * 8
		if n := p.Stride * d.mcusHigh * c.v * 8; cap(p.Pix) < n {
			p.Pix = make([]uint8, n)
		} else {
			p.Pix = p.Pix[:n]
		}
		if d.Progressive {
			if n := c.stride * d.mcusHigh * c.v * 64; cap(c.coefficients) < n {
				c.coefficients = make([]int16, n)
			} else {
				c.coefficients = c.coefficients[:n]
				clear(c.coefficients)
			}
		}
		// A sample that is smoothed needs its neighbours.
		c.left, c.right = d.part.Left/p.Across, (d.part.Left+d.part.Width-1)/p.Across
		c.top, c.bottom = d.part.Top/p.Down, (d.part.Top+d.part.Height-1)/p.Down
		if p.Across > 1 {
			c.left, c.right = max(c.left-1, 0), min(c.right+1, p.Width-1)
		}
		if p.Down > 1 {
			c.top, c.bottom = max(c.top-1, 0), min(c.bottom+1, p.Height-1)
		}
		c.left, c.right, c.top, c.bottom = c.left/8, c.right/8, c.top/8, c.bottom/8
		c.scanned = false
	}
	return nil
}

// lastRow is the last row of MCUs that is needed.
func (d *Decoder) lastRow() int {
	last := 0
	for _, c := range d.components {
		last = max(last, c.bottom/c.v)
	}
	return last
}

// A scanParts is the components of a scan, and their planes.
type scanParts struct {
	n      int
	chosen [4]*component
	planes [4]*Plane
}

func (p *scanParts) components() []*component { return p.chosen[:p.n] }

// scan reads one scan. It is done if nothing of the image is needed any more.
func (d *Decoder) scan(head []byte) (done bool, err error) {
	parts, err := d.scanParts(head)
	if err == nil {
		err = d.scanRange(head[1+2*parts.n:], parts.n)
	}
	if err == nil {
		err = d.checkTables(parts.components())
	}
	if err != nil {
		return false, err
	}
	d.in.begin(d.in.p)

	// A sequential image of one scan may end at the last row that is needed, if it has its end.
	early := !d.Progressive && parts.n == len(d.components) && bytes.LastIndex(d.in.data, []byte{0xff, markerEOI}) >= d.in.p
	rows := d.mcusHigh
	if early {
		rows = d.lastRow() + 1
	}
	if parts.n == 1 {
		err = d.scanAlone(parts.chosen[0], parts.planes[0], early)
	} else {
		err = d.scanTogether(parts.components(), parts.planes[:parts.n], rows)
	}
	return early && err == nil, err
}

// scanParts reads which components a scan has, and which Huffman tables each of them uses.
func (d *Decoder) scanParts(head []byte) (parts scanParts, err error) {
	if len(head) > 0 {
		parts.n = int(head[0])
	}
	if parts.n < 1 || parts.n > len(d.components) || len(head) != 4+2*parts.n {
		return parts, d.damaged("got the head of a scan of %d bytes and %d components", len(head), parts.n)
	}
	for i := range parts.n {
		id, tables := int(head[1+2*i]), head[2+2*i]
		for j := range d.components {
			if d.components[j].id == id {
				parts.chosen[i], parts.planes[i] = &d.components[j], &d.Planes[j]
			}
		}
		c := parts.chosen[i]
		if c == nil {
			return parts, d.damaged("got a scan of component %d, which the frame does not have", id)
		}
		for _, other := range parts.chosen[:i] {
			if other == c {
				return parts, d.damaged("a scan has component %d twice", id)
			}
		}
		c.dc, c.ac = int(tables>>4), int(tables&15)
		if c.dc > 3 || c.ac > 3 {
			return parts, d.damaged("got Huffman tables %d and %d, want 0 to 3", c.dc, c.ac)
		}
	}
	return parts, nil
}

// scanRange reads which coefficients, and which of their bits, a scan of n components has. A
// sequential image always has all of them.
func (d *Decoder) scanRange(s []byte, n int) error {
	d.spectralStart, d.spectralEnd, d.approxHigh, d.approxLow = int(s[0]), int(s[1]), uint(s[2]>>4), uint(s[2]&15)
	if !d.Progressive {
		d.spectralStart, d.spectralEnd, d.approxHigh, d.approxLow = 0, 63, 0, 0
	} else if d.spectralStart > d.spectralEnd || d.spectralEnd > 63 || d.spectralStart == 0 && d.spectralEnd != 0 ||
		d.spectralStart > 0 && n > 1 || d.approxLow > 13 || d.approxHigh != 0 && d.approxHigh != d.approxLow+1 {
		return d.damaged("got a scan of coefficients %d to %d at bits %d to %d", s[0], s[1], d.approxHigh, d.approxLow)
	}
	return nil
}

// checkTables is an error if a table is missing that the scan's components need.
func (d *Decoder) checkTables(components []*component) error {
	for _, c := range components {
		c.scanned = c.scanned || d.spectralStart == 0
		needDC, needAC := d.spectralStart == 0 && d.approxHigh == 0, d.spectralEnd > 0
		if needDC && !d.tables[0][c.dc].there || needAC && !d.tables[1][c.ac].there {
			return d.damaged("Huffman tables %d and %d of component %d are not there", c.dc, c.ac, c.id)
		}
		if !d.Progressive && !d.haveQuant[c.quant] {
			return d.damaged("quantization table %d of component %d is not there", c.quant, c.id)
		}
	}
	return nil
}

// A restarter counts MCUs until the next restart.
type restarter struct{ left, next int }

// mcu is called before each MCU.
func (d *Decoder) mcu(r *restarter, components []*component) error {
	if d.restart == 0 {
		return nil
	}
	if r.left > 0 {
		r.left--
		return nil
	}
	if r.next >= 0 {
		if d.in.short() {
			return d.runOut()
		}
		marker, _, err := d.nextSegment()
		if err != nil {
			return err
		}
		if want := byte(markerRST0 + r.next&7); marker != want {
			return d.damaged("got marker %02x, want restart %02x", marker, want)
		}
		d.in.begin(d.in.p)
	}
	r.left = d.restart - 1
	r.next++
	d.eobRun = 0
	for _, c := range components {
		c.last = 0
	}
	return nil
}

func (d *Decoder) startScan(components []*component) restarter {
	d.eobRun = 0
	for _, c := range components {
		c.last = 0
	}
	return restarter{left: 0, next: -1}
}

// scanTogether reads a scan of several components: each MCU has h×v blocks of each.
func (d *Decoder) scanTogether(components []*component, planes []*Plane, rows int) error {
	r := d.startScan(components)
	for my := range rows {
		for mx := range d.mcusWide {
			if err := d.mcu(&r, components); err != nil {
				return err
			}
			if err := d.readMCU(components, planes, mx, my); err != nil {
				return err
			}
		}
		if d.in.short() {
			return d.runOut()
		}
	}
	return nil
}

// readMCU reads the blocks of each component in an MCU.
func (d *Decoder) readMCU(components []*component, planes []*Plane, mx, my int) error {
	for i, c := range components {
		for y := range c.v {
			for x := range c.h {
				if err := d.readBlock(c, planes[i], mx*c.h+x, my*c.v+y); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// scanAlone reads a scan of one component: its blocks row by row, without those that only fill up
// an MCU.
func (d *Decoder) scanAlone(c *component, p *Plane, early bool) error {
	one := []*component{c}
	r := d.startScan(one)
	rows := c.high
	if early {
		rows = c.bottom + 1
	}
	for y := range rows {
		for x := range c.wide {
			if err := d.mcu(&r, one); err != nil {
				return err
			}
			if err := d.readBlock(c, p, x, y); err != nil {
				return err
			}
		}
		if d.in.short() {
			return d.runOut()
		}
	}
	return nil
}

// runOut is the error of codes that end before the blocks do.
func (d *Decoder) runOut() error {
	if d.in.p >= len(d.in.data)-1 {
		return errCut
	}
	return d.damaged("the codes of the scan end before its blocks do")
}

func (d *Decoder) readBlock(c *component, p *Plane, x, y int) error {
	if d.Progressive {
		at := (y*c.stride + x) * 64
		return d.refine(c, (*[64]int16)(c.coefficients[at:]))
	}
	if x < c.left || x > c.right || y < c.top || y > c.bottom {
		return d.skip(c)
	}
	last, err := d.sequential(c)
	if err != nil {
		return err
	}
	to := p.Pix[y*8*p.Stride+x*8:]
	if last == 0 {
		pixel.Fill(to, p.Stride, d.block[0])
		d.block[0] = 0
		return nil
	}
	pixel.Transform(to, p.Stride, &d.block)
	d.block = [64]int16{}
	return nil
}

// transformAll makes samples of the coefficients of a progressive image.
func (d *Decoder) transformAll() {
	for i := range d.components {
		c, p := &d.components[i], &d.Planes[i]
		var quant [64]int16
		for k, q := range d.quant[c.quant] {
			quant[zigzag[k]] = int16(q)
		}
		for y := c.top; y <= c.bottom; y++ {
			for x := c.left; x <= c.right; x++ {
				b := (*[64]int16)(c.coefficients[(y*c.stride+x)*64:])
				for k := range b {
					d.block[k] = b[k] * quant[k]
				}
				pixel.Transform(p.Pix[y*8*p.Stride+x*8:], p.Stride, &d.block)
			}
		}
	}
	d.block = [64]int16{}
}
