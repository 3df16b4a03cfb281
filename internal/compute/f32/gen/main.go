// Command gen writes the amd64 assembly of package f32 with avo. Package f32's go:generate line
// runs it, once for each set.
package main

import (
	"flag"
	"log"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	set := flag.String("set", "", "which functions to write: tile, vector, channel, half, compress, update, winograd, bf16, rows, stored, squares, stream, rownorm")
	flag.Parse()
	sets := map[string]func(){"tile": tiles, "vector": vectors, "channel": channels, "half": halves, "compress": compression, "update": updates, "winograd": winograd, "bf16": bf16, "rows": tableRows, "stored": stored, "squares": squareSums, "stream": streams, "rownorm": rowNorms}
	f, ok := sets[*set]
	if !ok {
		log.Fatalf("gen: set %q, want one of tile, vector, channel, half, compress, update, winograd, bf16, rows, stored, squares, stream, rownorm", *set)
	}
	ConstraintExpr("amd64")
	f()
	Generate()
}
