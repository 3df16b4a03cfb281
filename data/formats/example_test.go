package formats_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"github.com/paragon-train/paragon/data"
	_ "github.com/paragon-train/paragon/data/formats"
)

// A program that imports this package opens Parquet as any other table.
func Example() {
	type row struct {
		Label int64   `parquet:"label"`
		Price float64 `parquet:"price"`
	}
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "part-0.parquet")
	if err := parquet.WriteFile(file, []row{{1, 0.5}, {0, 2}}); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	table, err := data.OpenTable(ctx, file, data.TableConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	var rows data.Rows
	if err := table.Read(ctx, []int{1, 0}, &rows); err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.Columns()[1].Name, rows.Columns[1].Floats)
	// Output: price [2 0.5]
}
