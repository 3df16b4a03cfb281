// Package text reads tables of text, such as CSV and TSV.
//
// A row is a line; its fields stand between delimiters. With quotes a field may be quoted as in RFC
// 4180 and then hold delimiters, line ends and doubled quotes. Empty lines are no rows. The file is
// read once from end to end to find where blocks of rows begin, and later by blocks; what was found
// is kept for large files, under a key of the file's place, size and version.
package text

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/paragon-train/paragon/data/internal/table"
	"github.com/paragon-train/paragon/internal/files/objects"
)

// A source is one file of text. It has no state that changes: blocks may be read at the same time.
type source struct {
	layout
	store  objects.Store
	object objects.Info
	name   string
	index  index
	blocks []int
	print  string
}

// Open makes a source of one file of text.
func Open(ctx context.Context, store objects.Store, object objects.Info, cfg table.Config) (table.Source, error) {
	s, err := open(ctx, store, object, cfg, usual)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open reads the head of the file, which names the columns and shows what is in them, and finds or
// makes the index of blocks. most are the limits of blocks and rows; tests take small ones.
func open(ctx context.Context, store objects.Store, object objects.Info, cfg table.Config, most limits) (*source, error) {
	s := &source{store: store, object: object, name: object.Name}
	s.delimiter, s.quotes, s.null = cfg.Delimiter, cfg.Quotes, cfg.Null
	head, err := s.head(ctx, most.row)
	if err != nil {
		return nil, err
	}
	first := scanner{limits: most, name: s.name, quotes: s.quotes}
	names, rest, err := s.names(&first, head, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.setColumns(names, cfg); err != nil {
		return nil, err
	}
	s.infer(rest)
	if err := s.makeIndex(ctx, &first, cfg); err != nil {
		return nil, err
	}
	for _, m := range s.index {
		s.blocks = append(s.blocks, int(m.row))
	}
	rows := s.blocks[len(s.blocks)-1]
	if rows == 0 {
		return nil, fmt.Errorf("%s: byte %d: has a header and no rows; the file is cut short: fetch it again", s.name, first.at.offset)
	}
	s.print = table.Digest(s.name, fmt.Sprint(object.Size, rows, len(s.columns), s.quotes, s.delimiter), string(s.index.encode("")))
	return s, nil
}

// names are those of the columns: configured, numbered, or those of the header, behind which first
// then begins. rest is what follows of the head of the file.
func (s *source) names(first *scanner, head []byte, cfg table.Config) (names []string, rest []byte, err error) {
	// Some programs begin a file of UTF-8 so.
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		first.at.offset = int64(len("\ufeff"))
		head = head[len("\ufeff"):]
	}
	skip := func(record []byte, lines int) {
		head = head[len(record):]
		first.at.offset += int64(len(record))
		first.at.line += int64(lines)
	}
	record, lines := cut(head, s.quotes)
	for len(record) > 0 && len(trim(record)) == 0 {
		skip(record, lines)
		record, lines = cut(head, s.quotes)
	}
	fields, err := s.fields(trim(record))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: line %d, byte %d: %w", s.name, first.at.line+1, first.at.offset, err)
	}
	switch {
	case len(record) == 0:
		return nil, nil, fmt.Errorf("%s: byte %d: has no rows; the file is cut short: fetch it again", s.name, first.at.offset)
	case len(cfg.Names) > 0:
		if names = cfg.Names; len(names) != len(fields) {
			return nil, nil, fmt.Errorf("%s: line %d, byte %d: got %d columns, want the %d that were named", s.name, first.at.line+1, first.at.offset, len(fields), len(names))
		}
	case cfg.NoHeader:
		for c := range fields {
			names = append(names, "c"+strconv.Itoa(c))
		}
	default:
		names = fields
		first.header = bytes.Clone(trim(record))
		skip(record, lines)
	}
	first.begin, first.block = first.at, first.at
	return names, head, nil
}

// setColumns makes a column of each name. Two cannot have the same.
func (s *source) setColumns(names []string, cfg table.Config) error {
	seen := make(map[string]bool)
	for c, n := range names {
		if seen[n] {
			return fmt.Errorf("%s: column %d has the name %q of another column", s.name, c+1, n)
		}
		seen[n] = true
		s.columns = append(s.columns, table.Column{Name: n, Kind: cfg.Kinds[n], Nullable: true})
	}
	return nil
}

// head reads the beginning of the file.
func (s *source) head(ctx context.Context, most int64) ([]byte, error) {
	b := make([]byte, min(s.object.Size, most))
	if err := s.store.ReadRange(ctx, s.object, b, 0); err != nil {
		return nil, err
	}
	if int64(len(b)) == s.object.Size {
		return b, nil
	}
	// Whole rows only.
	end, inside := 0, false
	for at := 0; at < len(b); {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 0 {
			break
		}
		if s.quotes && bytes.Count(b[at:at+n+1], []byte{'"'})%2 == 1 {
			inside = !inside
		}
		at += n + 1
		if !inside {
			end = at
		}
	}
	if end == 0 {
		return nil, fmt.Errorf("%s: line 1, byte 0: the row is longer than %d bytes: it is not a file of rows", s.name, most)
	}
	return b[:end], nil
}

// fields are those of one row.
func (s *source) fields(text []byte) (fields []string, err error) {
	p := parser{layout: &s.layout}
	for begin := 0; ; begin++ {
		if s.quotes && begin < len(text) && text[begin] == '"' {
			field, end, err := p.quotedField(text, begin)
			if err != nil {
				return nil, err
			}
			fields, begin = append(fields, string(field)), end
		} else {
			end := begin
			for end < len(text) && text[end] != s.delimiter {
				end++
			}
			fields, begin = append(fields, string(text[begin:end])), end
		}
		if begin >= len(text) {
			return fields, nil
		}
	}
}

// infer gives a kind to columns that have none, by the first rows: integers if all are, else
// numbers, else bytes. Digits with a zero before them are a name and no number.
func (s *source) infer(head []byte) {
	type seen struct{ any, notInt, notFloat bool }
	of := make([]seen, len(s.columns))
	for row := 0; row < int(usual.rows) && len(head) > 0; row++ {
		record, _ := cut(head, s.quotes)
		head = head[len(record):]
		text := trim(record)
		fields, err := s.fields(text)
		if len(text) == 0 || err != nil || len(fields) != len(of) {
			// A wrong one is an error when it is read.
			continue
		}
		for c, f := range fields {
			if s.isNull([]byte(f)) {
				continue
			}
			of[c].any = true
			_, integer := parseInt([]byte(f))
			_, err := strconv.ParseFloat(f, 32)
			named := len(f) > 1 && f[0] == '0' && f[1] >= '0' && f[1] <= '9'
			of[c].notInt = of[c].notInt || !integer || named
			of[c].notFloat = of[c].notFloat || err != nil && !isNumber(err) || named
		}
	}
	for c := range s.columns {
		switch col := &s.columns[c]; {
		case col.Kind != table.Unknown:
		case of[c].any && !of[c].notInt:
			col.Kind = table.Int
		case of[c].any && !of[c].notFloat:
			col.Kind = table.Float
		default:
			col.Kind = table.Bytes
		}
	}
}

// makeIndex finds the blocks of rows, or takes the index that was kept.
func (s *source) makeIndex(ctx context.Context, first *scanner, cfg table.Config) error {
	key := table.Digest(s.store.URL(), s.object.Name, fmt.Sprint(s.object.Size, first.at.offset, s.quotes), s.object.Version)
	file := ""

	// Without a version a file that was changed in place would go unseen.
	if s.object.Version != "" {
		file = place(cfg.IndexDir, key, s.object.Size)
	}
	if file != "" {
		b, err := os.ReadFile(file)
		if err == nil {
			if s.index, err = decode(b, key, s.object.Size); err == nil {
				return nil
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errIndex) && !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("%s: its index: %w", s.name, err)
		}
	}
	var err error
	if s.index, err = scan(ctx, s.store, s.object, first); err != nil {
		return err
	}
	if file != "" {
		keep(file, s.index.encode(key))
	}
	return nil
}

func (s *source) Columns() []table.Column { return s.columns }
func (s *source) Blocks() []int           { return s.blocks }
func (s *source) Fingerprint() string     { return s.print }
func (s *source) Close() error            { return nil }

// Range is where a block lies in the file.
func (s *source) Range(block int) (objects.Range, bool) {
	at := s.index[block].offset
	return objects.Range{Object: s.object, Off: at, Length: s.index[block+1].offset - at}, true
}

// Size is about the most memory that a block takes with some columns: its bytes twice, since they
// are read before they are copied to columns, for each field a number and whether it is there, and
// the columns themselves.
func (s *source) Size(block int, columns []int) int64 {
	rows, r := int64(s.blocks[block+1]-s.blocks[block]), s.index[block+1].offset-s.index[block].offset
	return rows*int64(len(columns))*9 + r*2 + int64(len(columns))*64
}

// ReadBlock implements table.Source. A block that may take more than limit is refused before
// anything is read.
func (s *source) ReadBlock(ctx context.Context, block int, columns []int, limit int64) (*table.Block, error) {
	r, _ := s.Range(block)
	rows := s.blocks[block+1] - s.blocks[block]
	if size := s.Size(block, columns); size > limit {
		return nil, &table.TooLargeError{Name: fmt.Sprintf("%s: bytes %d to %d", s.name, r.Off, r.Off+r.Length), Rows: rows, Bytes: size, Limit: limit}
	}
	b := make([]byte, r.Length)
	if err := s.store.ReadRange(ctx, s.object, b, r.Off); err != nil {
		return nil, err
	}
	p := parser{layout: &s.layout, name: s.name, last: block == len(s.blocks)-2}
	return p.block(b, s.index[block], rows, columns)
}
