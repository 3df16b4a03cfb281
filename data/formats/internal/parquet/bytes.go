package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
)

// bytesPage decodes the bytes of a page, of which so many are there.
func (d *decoder) bytesPage(h pageHeader, b []byte, present int) error {
	i := 0
	end := func(row int) {
		if d.out.Ends != nil {
			d.out.Ends[d.row+row] = uint32(len(d.out.Data))
		}
	}
	// skip passes over rows without a value.
	skip := func() {
		for i < h.values && !d.there(i, present) {
			d.out.SetNull(d.row+i, d.rows)
			end(i)
			i++
		}
	}
	skip()
	err := d.eachBytes(present, h.encoding, b, func(v []byte) error {
		if d.leaf.decimal {
			d.out.Floats[d.row+i] = decimal(v, d.leaf.scale)
		} else if err := d.room(len(v)); err != nil {
			return err
		} else {
			d.out.Data = append(d.out.Data, v...)
			end(i)
		}
		i++
		skip()
		return nil
	})
	if err == nil && i != h.values {
		err = errShort
	}
	return err
}

// decimal is the number of an integer of any length, its highest byte first, with so many digits
// behind the point.
func decimal(b []byte, scale int) float32 {
	var x float64
	for i, v := range b {
		if i == 0 {
			x = float64(int8(v))
		} else {
			x = x*256 + float64(v)
		}
	}
	return float32(x / math.Pow10(scale))
}

// room takes bytes from those that are left.
func (d *decoder) room(n int) error {
	if d.left -= int64(n); d.left < 0 || uint64(len(d.out.Data))+uint64(n) > math.MaxUint32 {
		return errRoom
	}
	return nil
}

// eachBytes calls a function for each of n values.
func (d *decoder) eachBytes(n, encoding int, b []byte, value func([]byte) error) error {
	switch encoding {
	case encodingPlain:
		return d.plainBytes(n, b, value)
	case encodingPlainDictionary, encodingDictionary:
		if err := d.dictionaryIndexes(n, b); err != nil {
			return err
		}
		for _, x := range d.indexes {
			begin := uint32(0)
			if x > 0 {
				begin = d.dict.ends[x-1]
			}
			if err := value(d.dict.data[begin:d.dict.ends[x]]); err != nil {
				return err
			}
		}
		return nil
	case encodingDeltaLength:
		if d.leaf.physical != typeByteArray {
			break
		}
		return d.deltaLength(n, b, value)
	case encodingDeltaBytes:
		return d.deltaBytes(n, b, value)
	case encodingSplit:
		if d.leaf.physical != typeFixed {
			break
		}
		size := d.leaf.length
		if size < 1 || len(b)/size < n {
			return errShort
		}
		v, all := make([]byte, size), len(b)/size
		for i := range n {
			for k := range v {
				v[k] = b[k*all+i]
			}
			if err := value(v); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("its values have encoding %d, which is not read for their type", encoding)
}

// plainBytes reads values behind their lengths, or of the fixed one.
func (d *decoder) plainBytes(n int, b []byte, value func([]byte) error) error {
	for range n {
		size := d.leaf.length
		if d.leaf.physical == typeByteArray {
			if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
				return errShort
			}
			size = int(binary.LittleEndian.Uint32(b))
			b = b[4:]
		}
		if len(b) < size {
			return errShort
		}
		if err := value(b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// lengths reads n lengths as differences, and returns what follows.
func (d *decoder) lengths(n int, b []byte) (lengths []uint64, rest []byte, err error) {
	lengths = make([]uint64, n)
	rest, err = deltaNumbers(lengths, b)
	return lengths, rest, err
}

// deltaLength reads the lengths of all values, and the values behind them.
func (d *decoder) deltaLength(n int, b []byte, value func([]byte) error) error {
	lengths, b, err := d.lengths(n, b)
	if err != nil {
		return err
	}
	for _, size := range lengths {
		if size = uint64(uint32(size)); size > uint64(len(b)) {
			return errShort
		}
		if err := value(b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// deltaBytes reads values that begin as the ones before them.
func (d *decoder) deltaBytes(n int, b []byte, value func([]byte) error) error {
	prefixes, b, err := d.lengths(n, b)
	if err != nil {
		return err
	}
	suffixes, b, err := d.lengths(n, b)
	if err != nil {
		return err
	}
	var last []byte
	for i, size := range suffixes {
		size = uint64(uint32(size))
		prefix := uint64(uint32(prefixes[i]))
		if size > uint64(len(b)) || prefix > uint64(len(last)) {
			return errShort
		}
		if int64(prefix+size) > d.left {
			return errRoom
		}
		last = append(last[:prefix], b[:size]...)
		b = b[size:]
		if d.leaf.length > 0 && len(last) != d.leaf.length && d.leaf.physical == typeFixed {
			return fmt.Errorf("a value has %d bytes, want %d", len(last), d.leaf.length)
		}
		if err := value(last); err != nil {
			return err
		}
	}
	return nil
}
