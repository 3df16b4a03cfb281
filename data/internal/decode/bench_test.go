package decode_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/data/internal/decode"
	"github.com/paragon-train/paragon/data/transform"
)

// BenchmarkPhotographs decodes the JPEGs below the folder that PARAGON_TEST_DATA names in photos,
// by kind and class, alone and with a random crop.
func BenchmarkPhotographs(b *testing.B) {
	folder := os.Getenv("PARAGON_TEST_DATA")
	names, err := filepath.Glob(filepath.Join(folder, "photos", "*", "*", "*.jpg"))
	if folder == "" || err != nil || len(names) == 0 {
		b.Skip("skipped: PARAGON_TEST_DATA has no folder of photos")
	}
	kinds := map[string][][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		kind := filepath.Base(filepath.Dir(filepath.Dir(name)))
		kinds[kind] = append(kinds[kind], data)
	}
	for kind, files := range kinds {
		for _, crop := range []bool{false, true} {
			name := "kind=" + kind + "/do=decode"
			if crop {
				name += "+crop"
			}
			b.Run(name, func(b *testing.B) {
				draw := rand.New(rand.NewPCG(1, 2))
				var transforms []transform.Transform
				if crop {
					transforms = []transform.Transform{transform.RandomResizedCrop(224), transform.Flip()}
				}
				var img *transform.Image
				i := 0
				for b.Loop() {
					var err error
					if img, err = decode.Transform(img, files[i%len(files)], decode.Config{}, transforms, draw); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
			})
		}
	}
}
