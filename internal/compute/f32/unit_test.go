package f32

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/amxtest"
)

// blockProblem is a call of Blocks over random numbers, A's rows and steps lying anyhow.
func blockProblem(r *rand.Rand) *BlockArgs {
	a := &BlockArgs{Panels: 1 + r.IntN(3), Stride: UnitDepth * (1 + r.IntN(3)), Step: UnitDepth, Add: uint64(r.IntN(2))}
	if r.IntN(2) == 0 {
		a.Stride, a.Step = UnitDepth, UnitDepth*UnitRows
	}
	steps := 0
	for range 1 + r.IntN(3) {
		s := Segment{In: r.IntN(100), Len: 1 + r.IntN(3), W: 1024 * steps}
		steps += s.Len
		a.Segments = append(a.Segments, s)
	}
	a.Panel = steps*1024 + 64*r.IntN(2)
	a.B = make([]uint16, a.Panels*a.Panel)
	for range 1 + r.IntN(2) {
		a.Rows = append(a.Rows, [2]int{r.IntN(3000), r.IntN(3000)})
	}
	a.A = make([]uint16, 3000+100+3*a.Step+16*a.Stride)
	a.Sums = make([]float32, len(a.Rows)*a.Panels*1024+8)
	for _, s := range [][]uint16{a.A, a.B} {
		for i := range s {
			s[i] = BFloat16Bits(float32(r.NormFloat64()))
		}
	}
	for i := range a.Sums {
		a.Sums[i] = float32(r.NormFloat64())
	}
	return a
}

// wantBlocks is Blocks by its formula in float64, with the sums of absolute products.
func wantBlocks(a *BlockArgs) (want, abs []float64) {
	value := func(b uint16) float64 { return float64(BFloat16Value(b)) }
	for b := range a.Rows {
		for p := range a.Panels {
			for i := range 32 {
				for j := range 32 {
					sum, size := 0.0, 0.0
					if a.Add != 0 {
						sum = float64(a.Sums[(b*a.Panels+p)*1024+i*32+j])
						size = math.Abs(sum)
					}
					for _, seg := range a.Segments {
						for s := range seg.Len {
							for k := range 32 {
								x := value(a.A[a.Rows[b][i/16]+i%16*a.Stride+seg.In+s*a.Step+k]) * value(a.B[p*a.Panel+seg.W+s*1024+k/2*64+2*j+k%2])
								sum, size = sum+x, size+math.Abs(x)
							}
						}
					}
					want, abs = append(want, sum), append(abs, size)
				}
			}
		}
	}
	return want, abs
}

// checkBlocks compares a unit with the formula, and where it is the machine's with the emulated
// one, bit for bit.
func checkBlocks(t *testing.T, u *Tile, problems int) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range problems {
		a := blockProblem(r)
		name := fmt.Sprintf("problem %d: rows %v, segments %v, stride %d, step %d, panels %d, add %d", n, a.Rows, a.Segments, a.Stride, a.Step, a.Panels, a.Add)
		want, abs := wantBlocks(a)
		same := slices.Clone(a.Sums)
		rest := slices.Clone(a.Sums[len(want):])
		b := *a
		b.Sums = same
		u.Blocks(a)
		for i, w := range want {
			if d := math.Abs(float64(a.Sums[i]) - w); !(d <= 2e-6*abs[i]) {
				t.Fatalf("%s: sum %d is %g, want %g", name, i, a.Sums[i], w)
			}
		}
		if !slices.Equal(rest, a.Sums[len(want):]) {
			t.Fatalf("%s: numbers after the sums changed", name)
		}
		emulated := newUnitTile(Portable)
		emulated.emulated = true
		emulated.Blocks(&b)
		if i := firstOther(a.Sums, same); i >= 0 {
			t.Fatalf("%s: sum %d is %g, the emulated unit's %g", name, i, a.Sums[i], same[i])
		}
	}
}

func firstOther(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

func TestEmulatedUnitMultipliesBlocks(t *testing.T) {
	checkBlocks(t, Tiles(Portable).WithEmulatedUnit().Unit(), 20)
}

func TestTileUnitMultipliesBlocks(t *testing.T) {
	amxtest.Run(t, Active() == AMX, FromEnv, func(t *testing.T) {
		if Active() != AMX {
			t.Fatalf("the active path is %v, want %v", Active(), AMX)
		}
		checkBlocks(t, PairTiles(AMX).Unit(), 20)
	})
}

// A kernel or a sandbox may refuse the unit that the CPU has: the process goes on without it and
// says so.
func TestProcessWithoutPermissionForTilesGoesOnByPairs(t *testing.T) {
	amxtest.RunRefused(t, FromEnv, func(t *testing.T) {
		var log strings.Builder
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		defer slog.SetDefault(before)
		if Active() != AVX512 || BFloat16Products() == TileProducts || BFloat16Tiles().Unit() != nil || slices.Contains(Available(), AMX) {
			t.Errorf("the active path is %v of %v, products of bfloat16 are by %v; want %v and no tiles", Active(), Available(), BFloat16Products(), AVX512)
		}
		BFloat16Products()
		for _, want := range []string{"level=WARN", "refuses the CPU's tile unit (AMX)", "arch_prctl", "operation not permitted", "path=avx512"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log has %q, want %q in it once", log.String(), want)
			}
		}
		if _, err := parsePath("amx", AVX512); err == nil || !strings.Contains(err.Error(), "operation not permitted") {
			t.Errorf("PARAGON_CPU=amx gives error %v, want one that says why there is none", err)
		}
	})
}

// Tiles belong to threads, between which goroutines move at any time but within a call.
func TestTilesSurvivePreemption(t *testing.T) {
	amxtest.Run(t, Active() == AMX, FromEnv, func(t *testing.T) {
		stop := make(chan struct{})
		collecting := make(chan struct{})
		go func() {
			defer close(collecting)
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		}()
		u := PairTiles(AMX).Unit()
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				a := blockProblem(rand.New(rand.NewPCG(3, uint64(g))))
				a.Add = 0
				var first []float32
				for i := range 10 {
					runtime.Gosched()
					u.Blocks(a)
					if i == 0 {
						first = slices.Clone(a.Sums)
					} else if at := firstOther(a.Sums, first); at >= 0 {
						t.Errorf("goroutine %d, call %d: sum %d is %g, want %g", g, i, at, a.Sums[at], first[at])
						return
					}
				}
			})
		}
		all.Wait()
		close(stop)
		<-collecting
	})
}

// The unit's own numbers: subnormal ones are zeros, infinities and NaN stay in their rows.
func TestEmulatedUnitTakesSubnormalsForZeros(t *testing.T) {
	u := Tiles(Portable).WithEmulatedUnit().Unit()
	a := &BlockArgs{A: make([]uint16, 1024), B: make([]uint16, 1024), Sums: make([]float32, 1024), Rows: [][2]int{{0, 512}},
		Segments: []Segment{{Len: 1}}, Stride: 32, Step: 32, Panels: 1, Panel: 1024}
	for i := range a.A {
		a.A[i], a.B[i] = 1, 0x7f00 // subnormal, 2¹²⁷
	}
	a.A[5] = BFloat16Bits(float32(math.NaN()))
	a.A[32] = BFloat16Bits(1)
	u.Blocks(a)
	if got := a.Sums[3]; got == got {
		t.Errorf("a row with NaN sums to %g", got)
	}
	if got, want := a.Sums[32], float32(0x1p127); got != want {
		t.Errorf("1·2¹²⁷ and subnormal products sum to %g, want %g", got, want)
	}
	if got := a.Sums[64]; got != 0 {
		t.Errorf("subnormal numbers times 2¹²⁷ sum to %g, want 0", got)
	}
}

func TestBlocksRefusesWhatReachesBeyondItsSlices(t *testing.T) {
	u := Tiles(Portable).WithEmulatedUnit().Unit()
	for name, spoil := range map[string]func(a *BlockArgs){
		"A":        func(a *BlockArgs) { a.A = a.A[:len(a.A)-1] },
		"B":        func(a *BlockArgs) { a.B = a.B[:len(a.B)-1] },
		"Sums":     func(a *BlockArgs) { a.Sums = a.Sums[:1023] },
		"stride":   func(a *BlockArgs) { a.Stride = -1 },
		"segment":  func(a *BlockArgs) { a.Segments[0].Len = 0 },
		"A: up to": func(a *BlockArgs) { a.Segments[0].In = -1 },
	} {
		a := &BlockArgs{A: make([]uint16, 1024), B: make([]uint16, 1024), Sums: make([]float32, 1024), Rows: [][2]int{{0, 512}},
			Segments: []Segment{{Len: 1}}, Stride: 32, Step: 32, Panels: 1, Panel: 1024}
		u.Blocks(a)
		spoil(a)
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, name) {
					t.Errorf("%s too short: got %q, want a panic that names it", name, got)
				}
			}()
			u.Blocks(a)
		}()
	}
}

// The bytes in the assembly are those that the instruction in the comment above has.
func TestTileInstructionsAreWhatBinutilsMakesOfThem(t *testing.T) {
	as, err := exec.LookPath("as")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("there is no assembler of binutils for amd64: ", err)
	}
	src, err := os.ReadFile("unit_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	register := regexp.MustCompile(`\b(tmm\d|r\w+)\b`)
	instructions := regexp.MustCompile(`(?m)^// (.+)\n#define \w+ (.*)$`).FindAllStringSubmatch(string(src), -1)
	if len(instructions) < 20 {
		t.Fatalf("found %d instructions, want at least 20", len(instructions))
	}
	var text strings.Builder
	var want []byte
	for _, in := range instructions {
		fmt.Fprintln(&text, register.ReplaceAllString(in[1], "%$1"))
		for _, b := range regexp.MustCompile(`\$0x(\w+)`).FindAllStringSubmatch(in[2], -1) {
			var v byte
			if _, err := fmt.Sscanf(b[1], "%x", &v); err != nil {
				t.Fatal(err)
			}
			want = append(want, v)
		}
	}
	object := filepath.Join(t.TempDir(), "tiles.o")
	cmd := exec.Command(as, "-o", object, "-")
	cmd.Stdin = strings.NewReader(text.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("this assembler does not know the instructions: %v: %s", err, out)
	}
	data, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), string(want)) {
		t.Errorf("the bytes in unit_amd64.s are not those that %s makes of the comments", as)
	}
}
