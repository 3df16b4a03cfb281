package conv

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/paragon-train/paragon/internal/compute/f32"
	"github.com/paragon-train/paragon/internal/compute/pool"
)

// BenchmarkWinogradChoice times all ways of each 3×3 layer in turns. gain2 and gain4 are how many
// times faster Winograd's ways with patches of 2×2 and 4×4 pixels are, of the best calls, in CPU
// time on one thread where the system tells it; chosen is the side of the patches that a plan
// takes, 0 for none. A choice is wrong where another gain is larger; backward-weight has patches of
// 2×2 in both.
//
//	go test -run xxx -bench WinogradChoice -benchtime 0.3s ./internal/compute/cpu/conv/
func BenchmarkWinogradChoice(b *testing.B) {
	if !f32.Tiles(f32.Active()).CanWinograd() {
		b.Skip("this path has no Winograd")
	}
	for _, l := range benchLayers {
		if l.shape.R != 3 || l.shape.StrideH != 1 || l.shape.C%16 != 0 {
			continue
		}
		for _, threads := range []int{1, 2} {
			for _, batch := range []int{64, 128} {
				s := l.shape
				s.N = batch
				b.Run(fmt.Sprintf("stem=%s/x=%dx%dx%d/batch=%d/threads=%d", l.stem, s.H, s.W, s.C, batch, threads), func(b *testing.B) { compareWinograd(b, s, threads) })
			}
		}
	}
}

func compareWinograd(b *testing.B, s Shape, threads int) {
	now := wallTime
	if threads == 1 {
		now = threadTime
	}
	p := pool.New(threads)
	defer p.Close()
	chosen, err := New(s, p)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	x, w, y := random(r, s.XLen()), random(r, s.WLen()), random(r, s.YLen())
	out := make([]float32, max(len(x), len(w), len(y)))
	var plans [3]*Plan
	for i, use := range []useWinograd{never, wherePossible, wherePossible4} {
		if plans[i], err = newPlan(s, p, f32.Tiles(f32.Active()), use); err != nil {
			b.Fatal(err)
		}
	}
	for _, pass := range []struct {
		name   string
		chosen int
		f      func(p *Plan)
	}{
		{"forward", patchSide(chosen.forward), func(p *Plan) { p.Forward(out[:len(y)], x, w) }},
		{"data", patchSide(chosen.backward), func(p *Plan) { p.BackwardData(out[:len(x)], y, w) }},
		{"weight", patchSide(chosen.weight), func(p *Plan) { p.BackwardWeight(out[:len(w)], x, y) }},
	} {
		b.Run("pass="+pass.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
			for b.Loop() {
				for i, p := range plans {
					t := now()
					pass.f(p)
					best[i] = min(best[i], now()-t)
				}
			}
			b.ReportMetric(best[0].Seconds()*1e6, "plain-µs")
			b.ReportMetric(best[0].Seconds()/best[1].Seconds(), "gain2")
			b.ReportMetric(best[0].Seconds()/best[2].Seconds(), "gain4")
			b.ReportMetric(float64(pass.chosen), "chosen")
		})
	}
}

var started = time.Now()

func wallTime() time.Duration { return time.Since(started) }
