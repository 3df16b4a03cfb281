package data_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/paragon-train/paragon/data"
)

func ExampleOpenTable() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "part-0.csv"), []byte("label,price,shop\n1,0.5,north\n0,,south\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	table, err := data.OpenTable(ctx, dir, data.TableConfig{Columns: []string{"price", "shop"}})
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	var rows data.Rows
	if err := table.Read(ctx, []int{1, 0}, &rows); err != nil {
		log.Fatal(err)
	}
	price, shop := rows.Columns[0], rows.Columns[1]
	for i := range 2 {
		fmt.Printf("%s %v, no price: %t\n", shop.Bytes[i], price.Floats[i], price.Null(i))
	}
	// Output:
	// south 0, no price: true
	// north 0.5, no price: false
}
