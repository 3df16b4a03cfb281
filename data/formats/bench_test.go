package formats_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/paragon-train/paragon/data"
	"github.com/paragon-train/paragon/sampler"
)

// BenchmarkRows reads 100,000 rows like Criteo's in batches of 1024, in the order of blocks, with
// one reader:
//
//	go test -run - -bench Rows ./data/formats
//
// kind=rising reads the table's rows one after another, kind=table in the order of blocks, and
// kind=clicks makes features and buckets of them.
func BenchmarkRows(b *testing.B) {
	const rows = 100_000
	random := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(random, 1.1, 1, 1<<20)
	var text strings.Builder
	for range rows {
		fmt.Fprint(&text, random.IntN(2))
		for range data.CriteoDense {
			text.WriteByte('\t')
			if random.IntN(4) > 0 {
				fmt.Fprint(&text, zipf.Uint64())
			}
		}
		for range data.CriteoCategorical {
			text.WriteByte('\t')
			if random.IntN(10) > 0 {
				fmt.Fprintf(&text, "%08x", uint32(zipf.Uint64()*2654435761))
			}
		}
		text.WriteByte('\n')
	}
	dir := b.TempDir()
	files := map[string]string{"tsv": writeFile(b, filepath.Join(dir, "train.txt"), []byte(text.String()))}
	for _, codec := range []string{"snappy", "zstd"} {
		files[codec] = writeFile(b, filepath.Join(dir, codec+".parquet"), dictionaryParquet(b, text.String(), codec))
	}
	for _, form := range []string{"tsv", "snappy", "zstd"} {
		for _, kind := range []string{"rising", "table", "clicks"} {
			b.Run(fmt.Sprintf("form=%s/kind=%s", form, kind), func(b *testing.B) {
				read, order := reader(b, files[form], form, kind)
				options := []sampler.Option{sampler.Ordered(order)}
				if kind == "rising" {
					options = []sampler.Option{sampler.InOrder()}
				}
				s, err := sampler.Split(rows, 1, 0, options...)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				batch := make([]int, 0, 1024)
				for b.Loop() {
					for row := range s.Epoch(n) {
						if batch = append(batch, row); len(batch) == cap(batch) {
							read(batch)
							batch = batch[:0]
						}
					}
					n++
				}
				b.ReportMetric(float64(n)*rows/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// reader reads batches of a file of clicks, whose cache holds a part of it.
func reader(b *testing.B, file, form, kind string) (read func([]int), order sampler.Order) {
	b.Helper()
	if kind == "clicks" {
		clicks, err := data.OpenClicks(b.Context(), file, data.CriteoConfig{CacheBytes: 24 << 20})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = clicks.Close() })
		dense, ids, labels := make([]float32, 1024*data.CriteoDense), make([]int64, 1024*data.CriteoCategorical), make([]int32, 1024)
		return func(rows []int) {
			if err := clicks.Read(b.Context(), rows, dense, ids, labels); err != nil {
				b.Fatal(err)
			}
		}, clicks.Order(clicks.Len())
	}
	cfg := data.TableConfig{CacheBytes: 24 << 20}
	if form == "tsv" {
		cfg.NoHeader = true
	}
	table, err := data.OpenTable(b.Context(), file, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = table.Close() })
	var dst data.Rows
	return func(rows []int) {
		if err := table.Read(b.Context(), rows, &dst); err != nil {
			b.Fatal(err)
		}
	}, table.Order(table.Len())
}

// dictionaryParquet makes a file of rows of Criteo's text with dictionaries, as most programs write
// them, in row groups of 8192.
func dictionaryParquet(b *testing.B, text, codec string) []byte {
	b.Helper()
	group := parquet.Group{"label": parquet.Int(32)}
	for i := range data.CriteoDense {
		group[fmt.Sprint("I", i+1)] = parquet.Encoded(parquet.Optional(parquet.Int(64)), &parquet.RLEDictionary)
	}
	for i := range data.CriteoCategorical {
		group[fmt.Sprint("C", i+1)] = parquet.Encoded(parquet.Optional(parquet.String()), &parquet.RLEDictionary)
	}
	compression := parquet.Compression(&parquet.Snappy)
	if codec == "zstd" {
		compression = parquet.Compression(&parquet.Zstd)
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, parquet.NewSchema("clicks", group), compression, parquet.MaxRowsPerRowGroup(8192))
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		row := map[string]any{}
		for c, field := range strings.Split(line, "\t") {
			switch {
			case c == 0:
				row["label"] = int32(field[0] - '0')
			case field == "":
			case c <= data.CriteoDense:
				var x int64
				for _, d := range field {
					x = x*10 + int64(d-'0')
				}
				row[fmt.Sprint("I", c)] = x
			default:
				row[fmt.Sprint("C", c-data.CriteoDense)] = field
			}
		}
		if err := w.Write(row); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
