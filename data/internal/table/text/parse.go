package text

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/paragon-train/paragon/data/internal/table"
)

// A layout says how a file's rows are cut and what is in them.
type layout struct {
	delimiter byte
	quotes    bool
	null      []string
	columns   []table.Column
}

// A parser makes columns of the rows of a block.
type parser struct {
	*layout
	name string

	// target is the place of each column of the file in the result, −1 for those not wanted.
	target []int

	// last says that the file ends with the block.
	last bool

	out     *table.Block
	unquote []byte
}

// A fieldError is of a field or a row.
type fieldError struct {
	// column is from 0; −1: it is the row.
	column int

	err error
}

// block parses rows; where begins says where they lie in the file.
func (p *parser) block(b []byte, begin mark, rows int, columns []int) (*table.Block, error) {
	p.out = &table.Block{Rows: rows, Columns: make([]table.Values, len(columns))}
	p.target = make([]int, len(p.columns))
	for c := range p.target {
		p.target[c] = -1
	}
	for i, c := range columns {
		p.target[c] = i
		v := &p.out.Columns[i]
		switch p.columns[c].Kind {
		case table.Float:
			v.Floats = make([]float32, rows)
		case table.Int:
			v.Ints = make([]int64, rows)
		default:
			v.Ends = make([]uint32, rows)
		}
	}
	line, rest := begin.line, b
	quotes := p.quotes && bytes.IndexByte(b, '"') >= 0
	for row := 0; ; {
		if len(rest) == 0 {
			if row != rows {
				return nil, fmt.Errorf("%s: byte %d: got %d rows, and the index has %d: the file has changed; delete the index", p.name, begin.offset, row, rows)
			}
			break
		}
		at := begin.offset + int64(len(b)-len(rest))
		record, lines := cut(rest, quotes)
		rest = rest[len(record):]
		text := trim(record)
		if len(text) > 0 {
			if row == rows {
				return nil, fmt.Errorf("%s: line %d, byte %d: got more rows than the index has: the file has changed; delete the index", p.name, line+1, at)
			}
			if wrong := p.row(text, row, quotes); wrong.err != nil {
				return nil, p.wrong(wrong, line, at, p.last && len(rest) == 0 && record[len(record)-1] != '\n')
			}
			row++
		}
		line += int64(lines)
	}
	for i := range p.out.Columns {
		// What was grown too far would be counted and kept.
		if v := &p.out.Columns[i]; v.Ends != nil && cap(v.Data) > len(v.Data)+len(v.Data)/4 {
			v.Data = bytes.Clone(v.Data)
		}
	}
	return p.out, nil
}

// wrong is the error of a row or field that begins at a line and byte, with what to do about it;
// cut says that it is the last row and does not end with a line end, as in a file that was cut
// short.
func (p *parser) wrong(w fieldError, line, at int64, cut bool) error {
	advice := "correct or remove the line"
	if cut {
		advice = "the file may be cut short: fetch it again"
	}
	if w.column < 0 {
		return fmt.Errorf("%s: line %d, byte %d: %w; %s", p.name, line+1, at, w.err, advice)
	}
	return fmt.Errorf("%s: line %d, byte %d: column %d (%s): %w; %s", p.name, line+1, at, w.column+1, p.columns[w.column].Name, w.err, advice)
}

// cut returns the first row with the end of its line, and of how many lines it is.
func cut(b []byte, quotes bool) (record []byte, lines int) {
	end, inside := 0, false
	for {
		n := bytes.IndexByte(b[end:], '\n')
		if n < 0 {
			return b, lines + 1
		}
		piece := b[end : end+n+1]
		end += n + 1
		lines++
		if quotes && bytes.Count(piece, []byte{'"'})%2 == 1 {
			inside = !inside
		}
		if !inside {
			return b[:end], lines
		}
	}
}

// row parses a row without the end of its line.
func (p *parser) row(text []byte, row int, quotes bool) fieldError {
	c, begin := 0, 0
	for {
		if c == len(p.target) {
			return fieldError{-1, fmt.Errorf("got %d columns, want %d", c+countFields(text[begin:], p.delimiter), len(p.target))}
		}
		var field []byte
		quoted := false
		if quotes && begin < len(text) && text[begin] == '"' {
			quoted = true
			var end int
			var err error
			if field, end, err = p.quotedField(text, begin); err != nil {
				return fieldError{c, err}
			}
			begin = end
		} else {
			end := begin
			for end < len(text) && text[end] != p.delimiter {
				end++
			}
			field = text[begin:end]
			begin = end
			if quotes && p.target[c] >= 0 && bytes.IndexByte(field, '"') >= 0 {
				return fieldError{c, fmt.Errorf("got a quote within a field, %.20q: quote the whole field and double its quotes", field)}
			}
		}
		if to := p.target[c]; to >= 0 {
			if err := p.set(&p.out.Columns[to], p.columns[c], row, field, quoted); err != nil {
				return fieldError{c, err}
			}
		}
		c++
		if begin >= len(text) {
			break
		}
		begin++ // the delimiter
	}
	if c != len(p.target) {
		return fieldError{-1, fmt.Errorf("got %d columns, want %d", c, len(p.target))}
	}
	return fieldError{}
}

func countFields(text []byte, delimiter byte) int { return bytes.Count(text, []byte{delimiter}) + 1 }

// quotedField returns what is between quotes, and where it ends.
func (p *parser) quotedField(text []byte, begin int) (field []byte, end int, err error) {
	p.unquote = p.unquote[:0]
	for i := begin + 1; ; {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return nil, 0, fmt.Errorf("a quoted field is not closed")
		}
		p.unquote = append(p.unquote, text[i:i+n]...)
		i += n + 1
		switch {
		case i == len(text) || text[i] == p.delimiter:
			return p.unquote, i, nil
		case text[i] == '"':
			p.unquote = append(p.unquote, '"')
			i++
		default:
			return nil, 0, fmt.Errorf("got %.20q behind a closing quote, want the delimiter", text[i:])
		}
	}
}

// isNull says whether a field stands for no value. A quoted one never does.
func (l *layout) isNull(field []byte) bool {
	if l.null == nil {
		return len(field) == 0
	}
	for _, n := range l.null {
		if string(field) == n {
			return true
		}
	}
	return false
}

// set writes a field's value into a column.
func (p *parser) set(v *table.Values, column table.Column, row int, field []byte, quoted bool) error {
	if !quoted && p.isNull(field) {
		v.SetNull(row, p.out.Rows)
		if v.Ends != nil {
			v.Ends[row] = uint32(len(v.Data))
		}
		return nil
	}
	switch {
	case v.Ends != nil:
		v.Data = append(v.Data, field...)
		v.Ends[row] = uint32(len(v.Data))
	case v.Ints != nil:
		x, ok := parseInt(field)
		if !ok {
			return fmt.Errorf("got %.40q, want an integer of 64 bits%s", field, hint(column, field))
		}
		v.Ints[row] = x
	default:
		x, err := strconv.ParseFloat(string(field), 32)
		if err != nil && !(math.IsInf(x, 0) && isNumber(err)) {
			return fmt.Errorf("got %.40q, want a number%s", field, hint(column, field))
		}
		v.Floats[row] = float32(x)
	}
	return nil
}

// isNumber says whether the text was a number, though too large for a float32.
func isNumber(err error) bool { return errors.Is(err, strconv.ErrRange) }

// hint says what may be the matter with a field.
func hint(column table.Column, field []byte) string {
	if string(field) == column.Name {
		return " (it is the column's name: files were joined with their headers)"
	}
	return ", or nothing"
}

// parseInt reads an integer in decimal.
func parseInt(field []byte) (int64, bool) {
	digits := field
	negative := len(field) > 0 && field[0] == '-'
	if negative {
		digits = field[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		x, err := strconv.ParseInt(string(field), 10, 64)
		return x, err == nil
	}
	var x int64
	for _, d := range digits {
		if d -= '0'; d > 9 {
			y, err := strconv.ParseInt(string(field), 10, 64)
			return y, err == nil
		}
		x = x*10 + int64(d)
	}
	if negative {
		x = -x
	}
	return x, true
}
