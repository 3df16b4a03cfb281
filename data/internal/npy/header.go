package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// magic begins every .npy file.
const magic = "\x93NUMPY"

const (
	// maxHeader bounds the text that describes an array. NumPy itself refuses more than 10,000
	// characters.
	maxHeader = 1 << 16
	// maxDimensions is NumPy's own bound.
	maxDimensions = 64
	// headRead is how much is read at first: a header is mostly 128 bytes long.
	headRead = 4096
)

// A Kind is what the numbers of an array are.
type Kind byte

// The kinds, by NumPy's letters.
const (
	Bool  Kind = 'b'
	Int   Kind = 'i'
	Uint  Kind = 'u'
	Float Kind = 'f'
)

// A DType is the type of an array's numbers.
type DType struct {
	Kind Kind
	Size int // bytes of one number
}

// String returns NumPy's name, such as "float32".
func (t DType) String() string {
	switch t.Kind {
	case Bool:
		return "bool"
	case Int:
		return fmt.Sprintf("int%d", 8*t.Size)
	case Uint:
		return fmt.Sprintf("uint%d", 8*t.Size)
	default:
		return fmt.Sprintf("float%d", 8*t.Size)
	}
}

// A header is what the first bytes of a .npy file say.
type header struct {
	dtype DType

	// big says that the bytes of a number come the largest first.
	big bool

	// fortran says that the numbers are stored column by column.
	fortran bool

	shape []int
	start int // offset of the first number
}

// errShort is of a head that is cut off.
var errShort = errors.New("the file ends inside the header")

// headerSize returns the size of all that comes before the numbers, of a file that begins with p.
// It wants 12 bytes.
func headerSize(p []byte) (int, error) {
	if len(p) < len(magic) || string(p[:len(magic)]) != magic {
		return 0, fmt.Errorf(`got %q at byte 0, want "\x93NUMPY": it is not a .npy file`, p[:min(len(p), len(magic))])
	}
	if len(p) < 8 {
		return 0, errShort
	}
	size, at := 0, 0
	switch major := p[6]; major {
	case 1:
		if len(p) < 10 {
			return 0, errShort
		}
		size, at = int(binary.LittleEndian.Uint16(p[8:])), 10
	case 2, 3:
		if len(p) < 12 {
			return 0, errShort
		}
		n := binary.LittleEndian.Uint32(p[8:])
		if n > maxHeader {
			return 0, fmt.Errorf("got a header of %d bytes, want at most %d", n, maxHeader)
		}
		size, at = int(n), 12
	default:
		return 0, fmt.Errorf("got version %d.%d of the .npy format, want 1, 2 or 3", p[6], p[7])
	}
	return at + size, nil
}

// parseHeader reads the first bytes of a file; p has all of the header.
func parseHeader(p []byte) (header, error) {
	size, err := headerSize(p)
	if err != nil {
		return header{}, err
	}
	if size > len(p) {
		return header{}, errShort
	}
	at := 10
	if p[6] > 1 {
		at = 12
	}
	h, err := parseDict(p[at:size], p[6] == 3)
	if err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	h.start = size
	return h, nil
}

// parseDict reads the text {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. It takes
// these three entries and nothing else that Python would take, and evaluates nothing.
func parseDict(text []byte, utf bool) (header, error) {
	var h header
	p := &literal{text: text}
	if utf && !utf8.Valid(text) {
		return h, errors.New("is not UTF-8")
	}
	if err := p.want('{'); err != nil {
		return h, err
	}
	seen := make(map[string]bool, 3)
	for !p.take('}') {
		key, err := p.str()
		if err != nil {
			return h, err
		}
		if seen[key] {
			return h, fmt.Errorf("has %q twice", key)
		}
		seen[key] = true
		if err := p.want(':'); err != nil {
			return h, err
		}
		if err := h.readEntry(key, p); err != nil {
			return h, err
		}
		if !p.take(',') && p.peek() != '}' {
			return h, p.unexpected("a comma or }")
		}
	}
	if len(bytes.TrimRight(p.text[p.at:], " \n\x00")) > 0 {
		return h, p.unexpected("the end")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, fmt.Errorf("has no %q", key)
		}
	}
	if h.fortran && h.isWide() {
		return h, errors.New("the array is stored column by column (fortran_order), so its rows are not together; save numpy.ascontiguousarray(a)")
	}
	return h, nil
}

// readEntry reads the value of a key.
func (h *header) readEntry(key string, p *literal) (err error) {
	switch key {
	case "descr":
		if p.peek() == '[' {
			return errors.New("the array has named fields (a structured dtype), want plain numbers; save each field as an array of its own")
		}
		descr, err := p.str()
		if err != nil {
			return err
		}
		h.dtype, h.big, err = parseDescr(descr)
		return err
	case "fortran_order":
		h.fortran, err = p.boolean()
	case "shape":
		h.shape, err = p.tuple()
	default:
		err = fmt.Errorf("got %q, want only descr, fortran_order and shape", key)
	}
	return err
}

// isWide reports whether more than one dimension is not 1, so that the order of the numbers
// matters.
func (h *header) isWide() bool {
	wide := 0
	for _, d := range h.shape {
		if d != 1 {
			wide++
		}
	}
	return wide > 1
}

// parseDescr reads a dtype such as "<f4".
func parseDescr(descr string) (t DType, big bool, err error) {
	bad := func(why string) (DType, bool, error) {
		return DType{}, false, fmt.Errorf("got dtype %q, want bool, integers or floats: %s", descr, why)
	}
	if strings.Contains(descr, "O") {
		return bad("an array of objects is a pickle, which could run any code when it is read; save numbers")
	}
	if len(descr) < 3 {
		return bad("it names no type that is known")
	}
	switch descr[0] {
	case '<', '|':
	case '>':
		big = true
	case '=':
		return bad("the order of its bytes is not said")
	default:
		return bad("it names no type that is known")
	}
	kind := Kind(descr[1])
	switch descr[2:] {
	case "1", "2", "4", "8":
		t = DType{kind, int(descr[2] - '0')}
	default:
		return bad("it names no type that is known")
	}
	switch {
	case kind == Bool && t.Size == 1, kind == Int, kind == Uint, kind == Float && t.Size > 1:
	default:
		return bad("it names no type that is known")
	}
	if descr[0] == '|' && t.Size > 1 {
		return bad("the order of its bytes is not said")
	}
	return t, big, nil
}

// A literal reads the few forms of Python's literals that a header has.
type literal struct {
	text []byte
	at   int
}

func (p *literal) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\n' || p.text[p.at] == '\t') {
		p.at++
	}
}

// peek returns the next byte that is no space; 0 at the end.
func (p *literal) peek() byte {
	p.space()
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *literal) take(b byte) bool {
	if p.peek() != b || p.at == len(p.text) {
		return false
	}
	p.at++
	return true
}

func (p *literal) want(b byte) error {
	if !p.take(b) {
		return p.unexpected(string(rune(b)))
	}
	return nil
}

func (p *literal) unexpected(want string) error {
	p.space()
	return fmt.Errorf("got %q at character %d, want %s", p.text[p.at:min(len(p.text), p.at+16)], p.at, want)
}

// str reads a string in quotes of either kind, without escapes.
func (p *literal) str() (string, error) {
	quote := p.peek()
	if quote != '\'' && quote != '"' {
		return "", p.unexpected("a string")
	}
	end := bytes.IndexByte(p.text[p.at+1:], quote)
	if end < 0 {
		return "", p.unexpected("a string with its end")
	}
	s := p.text[p.at+1 : p.at+1+end]
	if bytes.IndexByte(s, '\\') >= 0 {
		return "", p.unexpected("a string without a backslash")
	}
	p.at += end + 2
	return string(s), nil
}

func (p *literal) boolean() (bool, error) {
	p.space()
	for _, word := range []string{"True", "False"} {
		if bytes.HasPrefix(p.text[p.at:], []byte(word)) {
			p.at += len(word)
			return word == "True", nil
		}
	}
	return false, p.unexpected("True or False")
}

// tuple reads (), (3,) or (3, 4); Python 2 wrote 3L.
func (p *literal) tuple() ([]int, error) {
	if err := p.want('('); err != nil {
		return nil, err
	}
	shape := []int{}
	for !p.take(')') {
		if len(shape) == maxDimensions {
			return nil, fmt.Errorf("got more than %d dimensions", maxDimensions)
		}
		p.space()
		end := p.at
		for end < len(p.text) && p.text[end] >= '0' && p.text[end] <= '9' {
			end++
		}
		n, err := strconv.ParseInt(string(p.text[p.at:end]), 10, 64)
		if err != nil || n > math.MaxInt {
			return nil, p.unexpected("a number of the shape")
		}
		p.at = end
		p.take('L')
		shape = append(shape, int(n))
		if !p.take(',') {
			if p.peek() != ')' || len(shape) == 1 {
				return nil, p.unexpected("a comma")
			}
		}
	}
	return shape, nil
}
