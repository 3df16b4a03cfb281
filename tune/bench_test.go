package tune_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/tune"
)

// BenchmarkReports: trials in this process that do nothing but report, with a log on the disk.
// A report returns when it is synced, so that what matters is how many share a sync.
//
//	go test -run '^$' -bench Reports -benchtime 50000x ./tune
func BenchmarkReports(b *testing.B) {
	for _, kept := range []bool{false, true} {
		for _, parallel := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("log=%t/parallel=%d", kept, parallel), func(b *testing.B) {
				cfg := tune.Config{Space: line, Metric: "v", Samples: parallel, Parallel: parallel, Logger: quiet}
				if kept {
					cfg.Dir = b.TempDir()
				}
				each := b.N/parallel + 1
				b.ResetTimer()
				_, err := tune.Run(b.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
					for step := range each {
						if err := r.Report(step, map[string]float64{"v": p.Float("x"), "loss": float64(step)}); err != nil {
							return err
						}
					}
					return nil
				}, cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(each*parallel)/b.Elapsed().Seconds(), "reports/s")
			})
		}
	}
}

// BenchmarkStarts: trials that report once.
//
//	go test -run '^$' -bench Starts -benchtime 5000x ./tune
func BenchmarkStarts(b *testing.B) {
	for _, kept := range []bool{false, true} {
		for _, parallel := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("log=%t/parallel=%d", kept, parallel), func(b *testing.B) {
				cfg := tune.Config{Space: line, Metric: "v", Samples: b.N, Parallel: parallel, Logger: quiet}
				if kept {
					cfg.Dir = b.TempDir()
				}
				b.ResetTimer()
				_, err := tune.Run(b.Context(), func(_ context.Context, p tune.Params, r *tune.Reporter) error {
					return r.Report(1, map[string]float64{"v": p.Float("x")})
				}, cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
			})
		}
	}
}

// BenchmarkResume: a log of trials with three reports each is read, and the search goes on.
//
//	go test -run '^$' -bench Resume -benchtime 3x ./tune
func BenchmarkResume(b *testing.B) {
	for _, trials := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("trials=%d", trials), func(b *testing.B) {
			cfg := tune.Config{Space: line, Metric: "v", Samples: trials, Parallel: 256, Logger: quiet, Dir: b.TempDir(), Resume: tune.ResumeAuto}
			f := func(_ context.Context, p tune.Params, r *tune.Reporter) error {
				for step := range 3 {
					if err := r.Report(step, map[string]float64{"v": p.Float("x")}); err != nil {
						return err
					}
				}
				return nil
			}
			if _, err := tune.Run(b.Context(), f, cfg); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s, err := tune.NewStudy(cfg)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
