package f32

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Products is how numbers that are stored as bfloat16 are multiplied.
type Products uint8

const (
	// FloatProducts widen numbers to float32 on their way: on paths without instructions for
	// bfloat16, and where these are no faster.
	FloatProducts Products = iota
	// PairProducts are those of PairTiles by AVX512_BF16.
	PairProducts
	// TileProducts are those of the tile unit, AMX: see Tile.Blocks.
	TileProducts
)

var productNames = [...]string{"float32", "pairs", "tiles"}

func (p Products) String() string {
	if int(p) < len(productNames) {
		return productNames[p]
	}
	return fmt.Sprintf("Products(%d)", p)
}

// HasProducts reports whether a path can multiply bfloat16 in a way.
func HasProducts(p Path, how Products) bool {
	switch how {
	case FloatProducts:
		return true
	case PairProducts:
		return HasBFloat16(p)
	case TileProducts:
		return p == AMX && hasPath(p)
	}
	return false
}

// BFloat16Products is the way in use on the active path. Tiles come first. Whether pairs are faster
// than float32 is not clear from the CPU's features: some multiply pairs at twice the rate of
// float32, others at the same. So the first call measures that for a millisecond, and the choice
// then holds for the process. PARAGON_CPU names the way after the path, as in
// PARAGON_CPU=avx512,float32.
//
// Where the CPU has a tile unit and the system does not let this process use it, the first call
// logs that.
func BFloat16Products() Products { return activeProducts() }

var activeProducts = sync.OnceValue(func() Products {
	_, how, named, err := choice()
	switch {
	case named:
	case HasProducts(active, TileProducts):
		how = TileProducts
	case HasProducts(active, PairProducts) && pairsPay(active):
		how = PairProducts
	}
	if refused := tilesRefused(); refused != nil && (err != nil || os.Getenv("PARAGON_CPU") == "") {
		slog.Warn("f32: the system refuses the CPU's tile unit (AMX)", "err", refused, "path", active.String(), "products", how.String())
	}
	return how
})

// pairsPay reports whether products of pairs are clearly more than those of float32 in the same
// time. CPUs lie at 2 and at 1 or below; on a busy core whole series of turns at 1.5 were seen
// where an idle one has 2. A core's clock changes with what its neighbours do, so both are measured
// one right after the other; the median turn counts, so that a busy machine does not change the
// answer.
func pairsPay(p Path) bool {
	const each = 50 * time.Microsecond
	var ratios [11]float64
	for i := range ratios {
		pairs := MeasurePairPeak(p, each)
		ratios[i] = pairs / MeasurePeak(p, each)
	}
	slices.Sort(ratios[:])
	return ratios[len(ratios)/2] > 1.3
}

// StoresBFloat16 reports whether images are better stored as bfloat16 than as float32: where
// products are of bfloat16, and the active path has the functions on arrays of bfloat16 in
// assembly. Else each convolution would widen what it reads, which takes more than the other
// operations gain.
func StoresBFloat16() bool { return BFloat16Products() != FloatProducts && storesBFloat16(active) }

// BFloat16Tiles is the tile of BFloat16Products on the active path.
func BFloat16Tiles() *Tile {
	switch BFloat16Products() {
	case TileProducts:
		return PairTiles(active)
	case PairProducts:
		t := *PairTiles(active)
		t.unit = nil
		return &t
	}
	return Tiles(active)
}

// parseProducts is the way of this name on a path.
func parseProducts(p Path, name string) (Products, error) {
	for how, s := range productNames {
		if !strings.EqualFold(s, name) {
			continue
		}
		if !HasProducts(p, Products(how)) {
			return 0, fmt.Errorf("this machine's %v has no products of bfloat16 by %s", p, s)
		}
		return Products(how), nil
	}
	return 0, fmt.Errorf("bfloat16 is not multiplied by %q; want %s after the comma", name, strings.Join(productNames[:], ", "))
}
