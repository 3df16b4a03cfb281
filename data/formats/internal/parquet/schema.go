package parquet

import (
	"errors"
	"fmt"

	"github.com/paragon-train/paragon/data/internal/table"
)

// Physical types.
const (
	typeBoolean   = 0
	typeInt32     = 1
	typeInt64     = 2
	typeInt96     = 3
	typeFloat     = 4
	typeDouble    = 5
	typeByteArray = 6
	typeFixed     = 7
)

// Logical types by their number in the union, and converted types, their forerunners.
const (
	logicalDecimal = 5
	logicalInteger = 10
	logicalFloat16 = 15

	convertedDecimal = 5
	convertedUint8   = 11
	convertedUint64  = 14
)

// A leaf is a column of values.
type leaf struct {
	element
	// path is the column's full name: the names of the enclosing structs and of the column
	// itself, joined by dots.
	path string
	// levels is how many of its path may be missing. A value is there if its level is this.
	levels int
	kind   table.Kind
	// refused says why the column is not read; "" if it is.
	refused string
	decimal bool
}

// maxLeaves bounds the columns of a file.
const maxLeaves = 1 << 20

// leaves are the columns of a schema.
func leaves(schema []element) (all []leaf, err error) {
	if len(schema) == 0 {
		return nil, errors.New("it has no schema: the file is damaged")
	}
	rest := schema[1:]
	var walk func(path string, levels int, refused string, depth, children int) error
	walk = func(path string, levels int, refused string, depth, children int) error {
		if depth > maxDepth {
			return fmt.Errorf("column %s lies deeper than %d", path, maxDepth)
		}
		for range children {
			if len(rest) == 0 {
				return errors.New("the schema ends within a group: the file is damaged")
			}
			e := rest[0]
			rest = rest[1:]
			name, below, why := e.name, levels, refused
			if path != "" {
				name = path + "." + e.name
			}
			switch e.repetition {
			case 0:
			case 1:
				below++
			case 2:
				if why == "" {
					why = "it is a list or a map"
				}
			default:
				return fmt.Errorf("column %s has repetition %d, which is unknown", name, e.repetition)
			}
			if e.physical < 0 {
				if err := walk(name, below, why, depth+1, e.children); err != nil {
					return err
				}
				continue
			}
			l := leaf{element: e, path: name, levels: below, refused: why}
			l.setKind()
			all = append(all, l)
		}
		return nil
	}
	if err := walk("", 0, "", 0, schema[0].children); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, errors.New("the schema goes on behind its last column: the file is damaged")
	}
	if len(all) == 0 || len(all) > maxLeaves {
		return nil, fmt.Errorf("it has %d columns, want 1 to %d", len(all), maxLeaves)
	}
	return all, nil
}

// inBytes says whether the values lie in the file as bytes of a length each.
func (l *leaf) inBytes() bool {
	return l.physical == typeByteArray || l.physical == typeFixed && !(l.kind == table.Float && !l.decimal)
}

// setKind says what the values become.
func (l *leaf) setKind() {
	l.decimal = l.logical == logicalDecimal || l.converted == convertedDecimal
	l.unsigned = l.unsigned || l.converted >= convertedUint8 && l.converted <= convertedUint64
	why := ""
	switch l.physical {
	case typeBoolean, typeInt32, typeInt64:
		l.kind = table.Int
		if l.decimal {
			l.kind = table.Float
		}
	case typeFloat, typeDouble:
		l.kind = table.Float
	case typeByteArray, typeFixed:
		l.kind = table.Bytes
		switch {
		case l.physical == typeFixed && l.length < 1:
			why = fmt.Sprintf("its values have %d bytes", l.length)
		case l.decimal:
			l.kind = table.Float
		case l.physical == typeFixed && l.logical == logicalFloat16 && l.length == 2:
			l.kind = table.Float
		}
	case typeInt96:
		l.kind, why = table.Int, "it is a time of 96 bits: write it as a time of 64 bits"
	default:
		l.kind, why = table.Bytes, fmt.Sprintf("its type %d is unknown", l.physical)
	}
	if l.refused == "" {
		l.refused = why
	}
}
