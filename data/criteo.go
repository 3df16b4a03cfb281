package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// The columns of a row of Criteo's display advertising set.
const (
	CriteoDense       = 13
	CriteoCategorical = 26
)

// A CriteoConfig says how rows become numbers.
type CriteoConfig struct {
	// Buckets is the number of rows of the one embedding table that all
	// columns share: each (column, value) pair is hashed into [0, Buckets).
	// Zero means 1,000,000.
	Buckets int64
	// MaxRows stops reading after so many rows. Zero reads all.
	MaxRows int

	// CacheBytes, DiskCache, IndexDir and Transformed are of OpenClicks. CacheBytes bounds the
	// decoded rows in memory; zero means 256 MiB.
	CacheBytes int64
	// DiskCache is a local folder that keeps up to 64 GiB of what was read over a network for
	// the next epoch, and the next run. Empty: nothing is kept.
	DiskCache string
	// IndexDir is a folder in which it is kept where the blocks of text begin. Empty: the
	// user's cache folder, for files of 256 MiB or more.
	IndexDir string
	// Transformed says that dense values of Parquet are taken as they are. Else each becomes
	// sign(x)·ln(1+|x|).
	Transformed bool
}

// check returns an error for what cannot be used, and sets what is zero.
func (cfg *CriteoConfig) check() error {
	if cfg.Buckets == 0 {
		cfg.Buckets = 1_000_000
	}
	if cfg.Buckets < 0 || cfg.MaxRows < 0 || cfg.CacheBytes < 0 {
		return fmt.Errorf("data: criteo: got %d buckets, at most %d rows and %d bytes of cache, want at least 1, 0 and 0", cfg.Buckets, cfg.MaxRows, cfg.CacheBytes)
	}
	return nil
}

// criteoDense is the feature that an integer becomes.
func criteoDense(x float64) float32 {
	return float32(math.Copysign(math.Log1p(math.Abs(x)), x))
}

// A ClickSet is rows of clicks in memory.
type ClickSet struct {
	buckets int64
	dense   []float32
	ids     []int64
	labels  []uint8
}

// Len returns the number of rows.
func (s *ClickSet) Len() int { return len(s.labels) }

// Buckets returns the number of rows of the embedding table.
func (s *ClickSet) Buckets() int64 { return s.buckets }

// Read writes the 13 dense features and the 26 rows of the embedding table of
// row i, and returns its label: 1 clicked, 0 not.
func (s *ClickSet) Read(i int, dense []float32, ids []int64) (label float32, err error) {
	if i < 0 || i >= len(s.labels) {
		return 0, fmt.Errorf("data: click set: got row %d, want 0 to %d", i, len(s.labels)-1)
	}
	if len(dense) < CriteoDense || len(ids) < CriteoCategorical {
		return 0, fmt.Errorf("data: click set: got room for %d dense and %d categorical values, want %d and %d",
			len(dense), len(ids), CriteoDense, CriteoCategorical)
	}
	copy(dense, s.dense[i*CriteoDense:(i+1)*CriteoDense])
	copy(ids, s.ids[i*CriteoCategorical:(i+1)*CriteoCategorical])
	return float32(s.labels[i]), nil
}

// LoadCriteo reads rows of 40 tab-separated columns, plain or gzip: a label of
// 0 or 1, 13 integers and 26 categorical values; all but the label may be
// empty.
//
// An integer x becomes sign(x)·ln(1+|x|), an empty one 0. A categorical value
// becomes its bucket; the empty value of a column is a value like any other.
func LoadCriteo(path string, cfg CriteoConfig) (*ClickSet, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s, err := openSource(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return readCriteo(s, cfg)
}

func readCriteo(s *source, cfg CriteoConfig) (*ClickSet, error) {
	set := &ClickSet{buckets: cfg.Buckets}
	b := bufio.NewReaderSize(s, 1<<16)
	at := int64(0)
	for n := 1; cfg.MaxRows == 0 || n <= cfg.MaxRows; n++ {
		line, err := b.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("data: %s: line %d, byte %d: longer than %d bytes; it is not a file of Criteo's rows", s.name, n, at, len(line))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, s.damaged(err)
		}
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if wrong := set.add(bytes.TrimRight(line, "\r\n")); wrong != nil {
			what := "correct or remove the line"
			if errors.Is(err, io.EOF) {
				what = "the file may be cut short: fetch it again"
			}
			return nil, fmt.Errorf("data: %s: line %d, byte %d: %w; %s", s.name, n, at, wrong, what)
		}
		at += int64(len(line))
	}
	if set.Len() == 0 {
		return nil, fmt.Errorf("data: %s: byte 0: has no rows; the file is cut short: fetch it again", s.name)
	}
	return set, nil
}

// add appends the row on the line, or nothing and an error.
func (s *ClickSet) add(line []byte) error {
	const columns = 1 + CriteoDense + CriteoCategorical
	if got := bytes.Count(line, []byte{'\t'}) + 1; got != columns {
		return fmt.Errorf("got %d columns, want %d", got, columns)
	}
	var dense [CriteoDense]float32
	var ids [CriteoCategorical]int64
	var label uint8
	rest := line
	for c := range columns {
		field := rest
		if i := bytes.IndexByte(rest, '\t'); i >= 0 {
			field, rest = rest[:i], rest[i+1:]
		}
		switch {
		case c == 0:
			if len(field) != 1 || field[0] != '0' && field[0] != '1' {
				return fmt.Errorf("column 1: got label %.20q, want 0 or 1", field)
			}
			label = field[0] - '0'
		case c <= CriteoDense:
			if len(field) == 0 {
				continue
			}
			x, err := strconv.ParseInt(string(field), 10, 64)
			if err != nil {
				return fmt.Errorf("column %d: got %.20q, want an integer or nothing", c+1, field)
			}
			dense[c-1] = criteoDense(float64(x))
		default:
			ids[c-1-CriteoDense] = int64(hashColumn(c, field) % uint64(s.buckets))
		}
	}
	s.dense = append(s.dense, dense[:]...)
	s.ids = append(s.ids, ids[:]...)
	s.labels = append(s.labels, label)
	return nil
}

// hashColumn is FNV-1a over the column and the value, mixed so that all bits
// count.
func hashColumn(column int, value []byte) uint64 {
	h := (uint64(14695981039346656037) ^ uint64(column)) * 1099511628211
	for _, b := range value {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return mix(h, 0)
}

// mix makes one number of two, so that neighbours have nothing in common (the
// finaliser of SplitMix64).
func mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
